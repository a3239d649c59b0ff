/* The trace of a run: what is in the files of --trace DIR.
 *
 * DIR/rank-0000.jsonl, rank-0001.jsonl, ...: one per rank, one JSON value a line. Times are whole
 * nanoseconds on that rank's clock since the rank's `epoch_ns`; `clock` lines say how it goes
 * against rank 0's.
 *
 * Objects, the first one first, the others before what refers to them:
 *
 *   {"trace":"starstep","version":1,"rank":0,"ranks":2,"host":"node1","device":"cpu",
 *    "model":"resnet50","first_step":11,"last_step":20,"slots":4,"epoch_ns":123456789,
 *    "overlap":true,"backend":"mpi","batch":32}
 *        device: "cpu", or "cuda" with tasks of lanes timed on the GPU. last_step 0: to the end of
 *        the run. batch: images per rank and step; may be missing. "predicted_for":"h200": the machine
 *        of which tasks have predictions, "host" being the CPU, or "measured": StarPU had measured them;
 *        may be missing. "micros":4: micro-steps of a step; missing: 1
 *   {"worker":0,"name":"compute"}
 *        numbered from 0. "compute", "service 1", ...; on a GPU "compute", "comm" and "copy" too.
 *        All but these three are service workers, which load
 *   {"task":5,"name":"fwd block1","kind":"forward","block":3,"bucket":-1,"slice":-1,
 *    "access":[["buf",7,3]]}
 *        one per task of the plan's training step, in the order of submission, numbered from 0.
 *        kind as by ss_task_kind_name. access: space as by ss_space_name, index, mode (1 read,
 *        2 write, 3 both). From these follow all dependencies, as StarPU infers them: of two
 *        submitted tasks that touch the same (space, index), the later one waits for the earlier
 *        unless both read. The spaces images, labels, metrics, staged and fetched are those of the
 *        step's slot, step modulo `slots`; the others are one for all steps. With micro-steps the slot
 *        is that of (step * micros + micro), and metrics are one for all steps. "micro":1: which one of
 *        the step it belongs to; missing: 0. "predicted_ns":1234: how long it should take there
 *        (sim/roofline.h), or took before (runtime/measured.h); may be missing
 *   {"bucket":0,"bytes":1048576,"wire_bytes":524288}
 *        a collective of every step, numbered from 0. Unpadded: in fp32, and as one rank's numbers
 *        travel. "collective":"reduce-scatter" or "gather": not an all-reduce of gradients, but these
 *        halves of a sharded optimizer; a gather is of the weights of bucket "of":0. May be missing,
 *        and "of" then is its own number
 *   {"clock":"begin","at":12345,"offset_ns":-250,"error_ns":900}
 *        and perhaps "end": at that time rank 0's CLOCK_MONOTONIC was this rank's (epoch_ns + at) +
 *        offset_ns, with an error of at most error_ns. Linear between the two, constant outside
 *   {"end":true,"lost":0}
 *        the last line of a rank that came to a good end. lost: marks that did not fit
 *
 * Arrays, in any order:
 *
 *   ["s",step,submitted,reported]
 *        a step's submission began; its metrics were there
 *   ["t",step,task,worker,ready,begin,end]
 *        a task: its dependencies were met, it began, it ended (a collective: when it was done). Of
 *        a GPU's lanes in stream order begin and end are those of enqueuing
 *   ["g",step,task,lane,begin,end]
 *        the same task on the GPU, by events. lane: "compute", "comm", "copy", or "update" of
 *        what runs behind sums
 *   ["c",step,bucket,begin,end]
 *        a collective between ranks was under way, by the number of its line; bucket -1: metrics
 *   ["m",at,host_bytes,device_bytes]
 *        memory held
 *
 * Steps lie between first_step and last_step, no task has two marks "t" in a step, nothing ends
 * before it begins. A file that ends early (its run was killed) is read as far as it goes. */
#ifndef SS_TRACE_FORMAT_H
#define SS_TRACE_FORMAT_H

#define SS_TRACE_VERSION 1
#define SS_TRACE_FILE "rank-%04d.jsonl"

#endif
