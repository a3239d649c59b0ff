/* stopped_ranks.c: states of this job's other processes (contract in stopped_ranks.h). */
#include "comm/stopped_ranks.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENVIRON_BYTES (256u << 10)

/* Read the first `capacity` - 1 bytes of a process's /proc file, terminated by '\0'; returns their
 * number. */
static size_t read_proc(long pid, const char *name, char *to, size_t capacity)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/%s", pid, name);
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(to, 1, capacity - 1, file) : 0;
    if (file)
        fclose(file);
    to[n] = '\0';
    return n;
}

/* Find a variable in an environment block of n bytes as in /proc/PID/environ; its value or NULL. */
static const char *find_variable(const char *environment, size_t n, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = environment; at < environment + n; at += strlen(at) + 1)
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
    return NULL;
}

/* Describe why the process does not run, or NULL if it does. */
static const char *find_trouble(long pid)
{
    char line[512];
    read_proc(pid, "stat", line, sizeof line);
    const char *name_end = strrchr(line, ')');
    if (!name_end || name_end[1] != ' ')
        return NULL;
    switch (name_end[2]) {
    case 'T':
    case 't':
        return "is stopped";
    case 'D':
        return "waits for a device or file system";
    default:
        return NULL;
    }
}

static void describe_one(long pid, const char *job, const char *host, char *environment, char *text,
                         size_t capacity)
{
    const char *trouble = find_trouble(pid);
    size_t used = strlen(text);
    if (!trouble)
        return;
    size_t n = read_proc(pid, "environ", environment, ENVIRON_BYTES);
    const char *of = find_variable(environment, n, "PMIX_NAMESPACE");
    const char *rank = find_variable(environment, n, "PMIX_RANK");
    if (of && rank && strcmp(of, job) == 0)
        snprintf(text + used, capacity - used, "; rank %.10s (%s), which %s (process %ld)", rank,
                 host, trouble, pid);
}

void ss_stopped_ranks_describe(char *text, size_t capacity)
{
    char host[64] = "";
    const char *job = getenv("PMIX_NAMESPACE");
    char *environment = malloc(ENVIRON_BYTES);
    DIR *processes = opendir("/proc");
    text[0] = '\0';
    gethostname(host, sizeof host - 1);
    for (struct dirent *entry; job && environment && processes && (entry = readdir(processes));) {
        long pid = atol(entry->d_name);
        if (pid > 0 && pid != (long)getpid())
            describe_one(pid, job, host, environment, text, capacity);
    }
    if (processes)
        closedir(processes);
    free(environment);
}
