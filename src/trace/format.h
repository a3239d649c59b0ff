/* The trace file format: contents of the files of --trace DIR.
 *
 * DIR/rank-0000.jsonl, rank-0001.jsonl, ...: one file per rank, one JSON value per line. Times
 * are whole nanoseconds on that rank's clock since the rank's `epoch_ns`. The `clock` lines
 * relate it to rank 0's clock.
 *
 * Objects. The first one is the first line; the others precede every line that refers to them:
 *
 *   {"trace":"starstep","version":1,"rank":0,"ranks":2,"host":"node1","device":"cpu",
 *    "model":"resnet50","first_step":11,"last_step":20,"slots":4,"epoch_ns":123456789,
 *    "overlap":true,"backend":"mpi","batch":32}
 *        device: "cpu", or "cuda" with lane tasks timed on the GPU. last_step 0: to the end of
 *        the run. batch: images per rank and step; optional. "predicted_for":"h200": the machine
 *        that task times are predicted for, with "host" for the CPU, or "measured" for times
 *        that StarPU measured earlier; optional. "micros":4: micro-batches per step; default 1
 *   {"worker":0,"name":"compute"}
 *        numbered from 0. "compute", "service 1", ...; on a GPU also "comm" and "copy". All
 *        workers except these three are service workers, which load data
 *   {"task":5,"name":"fwd block1","kind":"forward","block":3,"bucket":-1,"slice":-1,
 *    "access":[["buf",7,3]]}
 *        one per task of the plan's training step, in submission order, numbered from 0.
 *        kind: a name of ss_task_kind_name. access: space (a name of ss_space_name), index, mode
 *        (1 read, 2 write, 3 both). All dependencies follow from the accesses, as in StarPU: if
 *        two submitted tasks access the same (space, index), the later one depends on the
 *        earlier one unless both read. The spaces images, labels, metrics, staged and fetched
 *        belong to the step's slot, step modulo `slots`; the other spaces are shared by all
 *        steps. With micro-batches the slot is (step * micros + micro) modulo `slots`, and
 *        metrics are shared by all steps. "micro":1: the micro-batch of the step that the task
 *        belongs to; default 0. "predicted_ns":1234: the predicted duration
 *        (sim/roofline.h), or the one measured earlier (runtime/measured.h); optional
 *   {"bucket":0,"bytes":1048576,"wire_bytes":524288}
 *        a collective of every step, numbered from 0. Sizes without padding: in fp32, and as
 *        sent per rank. "collective":"reduce-scatter" or "gather": one of these halves of a
 *        sharded optimizer's exchange instead of an all-reduce of gradients; default
 *        all-reduce. "of":0: the bucket whose weights are gathered; default its own number
 *   {"clock":"begin","at":12345,"offset_ns":-250,"error_ns":900}
 *        optionally also "end": at that time rank 0's CLOCK_MONOTONIC was this rank's
 *        (epoch_ns + at) + offset_ns, with an error of at most error_ns. Linear between the two,
 *        constant outside
 *   {"end":true,"lost":0}
 *        the last line of a rank that exited normally. lost: events dropped for lack of memory
 *
 * Arrays, in any order:
 *
 *   ["s",step,submitted,reported]
 *        a step: when its submission began, and when its metrics were available
 *   ["t",step,task,worker,ready,begin,end]
 *        a task: when its dependencies were met, when it began, when it ended (a collective:
 *        when it completed). For tasks enqueued on GPU lanes, begin and end are the times of
 *        enqueuing
 *   ["g",step,task,lane,begin,end]
 *        the same task on the GPU, timed with CUDA events. lane: "compute", "comm", "copy", or
 *        "update" for work that follows all-reduces
 *   ["c",step,bucket,begin,end]
 *        a collective between ranks; bucket: the number of its line, -1 for metrics
 *   ["m",at,host_bytes,device_bytes]
 *        memory in use
 *
 * Steps lie between first_step and last_step, a task has at most one "t" event per step, and no
 * event ends before it begins. A file that ends early (a killed run) is read as far as it is
 * valid. */
#ifndef SS_TRACE_FORMAT_H
#define SS_TRACE_FORMAT_H

#define SS_TRACE_VERSION 1
#define SS_TRACE_FILE "rank-%04d.jsonl"

#endif
