/* Names and columns of the monitor's CSV files. */
#ifndef SS_APPS_MONITOR_COLUMNS_H
#define SS_APPS_MONITOR_COLUMNS_H

/* nvidia-smi --query-gpu=timestamp,index,name,utilization.gpu,utilization.memory,memory.total,
 * memory.used,power.draw --format=csv,nounits */
#define SS_GPU_FILE "gpu_memory_log"
#define SS_GPU_HEADER                                                                              \
    "timestamp, index, name, utilization.gpu [%], utilization.memory [%], memory.total [MiB], "    \
    "memory.used [MiB], power.draw [W]"

/* psrecord's four columns, followed by additional ones. */
#define SS_CPU_FILE "cpu_memory_log"
#define SS_CPU_HEADER                                                                              \
    "elapsed [s], cpu [%], memory.rss [MiB], memory.virtual [MiB], memory.pss [MiB], processes, "  \
    "load, node.memory.used [MiB], timestamp"

#endif
