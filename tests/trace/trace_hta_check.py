"""trace_hta_check.py HTA_DIR REPORT: compare results of Holistic Trace Analysis of the files with the report."""
import json
import logging
import os
import sys
import warnings
from importlib.metadata import version

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
sys.dont_write_bytecode = True
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
from hta.trace_analysis import TraceAnalysis  # noqa: E402


def expect(condition, *what):
    if not condition:
        sys.exit("wrong: " + " ".join(str(w) for w in what))


def main():
    with open(sys.argv[2]) as f:
        report = json.load(f)
    analysis = TraceAnalysis(trace_dir=sys.argv[1], include_last_profiler_step=True)
    print("Holistic Trace Analysis", version("HolisticTraceAnalysis"))
    steps = [int(s) for s in analysis.get_profiler_steps()]
    expect(steps == [s["step"] for s in report["ranks"][0]["each_step"]], "steps", steps)
    print("steps", steps)

    found = analysis.get_comm_comp_overlap(visualize=False)
    for rank in report["ranks"]:
        theirs = float(found.loc[found["rank"] == rank["rank"], "comp_comm_overlap_pctg"].iloc[0])
        events = analysis.t.get_trace(rank["rank"])
        ours, summing = 100 * rank["overlap"], 1000 * rank["steps"] * rank["communication_ms"]
        # Only Holistic Trace Analysis counts all-reduces that end after the last step's window.
        behind = events.loc[events.stream.eq(2), "end"].max() - events.loc[events.stream.eq(1), "end"].max()
        expect(abs(theirs - ours) <= 0.01 + 100 * max(behind, 0) / summing, "overlap of rank", rank["rank"], theirs, ours)
        print(f"rank {rank['rank']}: overlap {theirs:.2f} %, reported {ours:.2f} %, {max(behind, 0):.1f} us behind the end")
        counts = events[events.stream.ge(0)].groupby("iteration").size()
        expect(list(counts.index) == steps and len(set(counts)) == 1, "kernels of steps", counts)
    print(f"kernels of a step: {counts.iloc[0]}")

    expect(len(analysis.get_temporal_breakdown(visualize=False)) == len(report["ranks"]), "temporal breakdown")
    expect(len(analysis.get_gpu_kernel_breakdown(visualize=False)[0]) > 0, "kernel breakdown")
    expect(len(analysis.get_potential_stragglers(num_candidates=1)) > 0, "stragglers")
    print("breakdowns and stragglers are found")


main()
