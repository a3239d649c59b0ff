/* test_comm_tcp_env.c: rank and address from synthetic environments; proofs of the handshake. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm.h"
#include "comm/comm_env.h"
#include "comm/comm_tcp_hello.h"
#include "core/log.h"
#include "tests/environment.h"
#include "tests/run_suite.h"

#include "tests/assert.h"
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#define TORCH                                                                                      \
    "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 MASTER_ADDR=n1 MASTER_PORT=29500 "
#define SLURM                                                                                      \
    "SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=8 SLURM_NTASKS=8 SLURM_LOCALID=1 SLURM_NODEID=1 "         \
    "SLURM_JOB_ID=1234 SLURM_STEP_ID=2 SLURM_STEP_NODELIST=gpu[003-017,021],login1 "

static struct ss_comm_env env;

static void expect(const char *variables)
{
    forget();
    set(variables);
    ck_assert_msg(ss_comm_env_read(&env) == SS_OK, "%s: %s", variables, ss_log_last_error());
}

START_TEST(torchrun)
{
    expect(TORCH);
    ck_assert_int_eq(env.kind, SS_ENV_TORCHRUN);
    ck_assert(env.rank == 5 && env.size == 8 && env.local_rank == 1 && env.local_size == 4);
    ck_assert_int_eq(env.node, 4);
    ck_assert_str_eq(env.host, "n1");
    ck_assert_str_eq(env.job, "");
    ck_assert(env.nports == 1 && env.ports[0] == 29500);
    /* It takes precedence over a complete job step with other values. */
    expect(SLURM "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 " TORCH);
    ck_assert(env.kind == SS_ENV_TORCHRUN && env.rank == 5 && env.size == 8);
    expect(TORCH "MASTER_ADDR=[fe80::1] TORCHELASTIC_USE_AGENT_STORE=True");
    ck_assert_str_eq(env.host, "fe80::1");
    ck_assert(env.nports == SS_ENV_PORTS && env.ports[0] == 29501 && env.ports[15] == 29516);
    expect(TORCH "MASTER_PORT=65533 TORCHELASTIC_USE_AGENT_STORE=True");
    ck_assert(env.nports == 2 && env.ports[1] == 65535);
    expect(TORCH "TORCHELASTIC_USE_AGENT_STORE=False");
    ck_assert(env.nports == 1 && env.ports[0] == 29500);
}
END_TEST

/* The socket that rank 0 inherits. The other ranks ignore the variable. */
START_TEST(listener)
{
    expect(TORCH "RANK=0 LOCAL_RANK=0");
    ck_assert_int_eq(env.listener, -1);
    expect(TORCH "RANK=0 LOCAL_RANK=0 STARSTEP_LISTEN_FD=");
    ck_assert_int_eq(env.listener, -1);
    expect(TORCH "RANK=0 LOCAL_RANK=0 STARSTEP_LISTEN_FD=17");
    ck_assert_int_eq(env.listener, 17);
    expect(SLURM "SLURM_PROCID=0 SLURM_LOCALID=0 STARSTEP_LISTEN_FD=3");
    ck_assert_int_eq(env.listener, 3);
    expect(TORCH "STARSTEP_LISTEN_FD=17");
    ck_assert_int_eq(env.listener, -1);
    expect(TORCH "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 STARSTEP_LISTEN_FD=nothing");
    ck_assert_int_eq(env.listener, -1);
}
END_TEST

START_TEST(slurm)
{
    int first;
    expect(SLURM);
    ck_assert_int_eq(env.kind, SS_ENV_SLURM);
    ck_assert(env.rank == 5 && env.size == 8 && env.local_rank == 1 && env.local_size == 0);
    ck_assert_int_eq(env.node, 1);
    ck_assert_str_eq(env.host, "gpu003");
    ck_assert_str_eq(env.fallback, "");
    ck_assert_str_eq(env.job, "slurm 1234.2");
    ck_assert_int_eq(env.nports, SS_ENV_PORTS);
    first = env.ports[0];
    for (int i = 0; i < SS_ENV_PORTS; i++)
        ck_assert(env.ports[i] == first + i && env.ports[i] > 1024 && env.ports[i] < 32768);
    /* Another step of the same job listens elsewhere. */
    expect(SLURM "SLURM_STEP_ID=3");
    ck_assert(env.ports[0] >= first + SS_ENV_PORTS || env.ports[15] < first);
    expect(SLURM "SLURM_STEP_NUM_TASKS=");
    ck_assert(env.kind == SS_ENV_SLURM && env.size == 8);
    expect(SLURM "SLURM_STEP_RESV_PORTS=12000-12002,12010");
    ck_assert(env.nports == 4 && env.ports[2] == 12002 && env.ports[3] == 12010);
    expect(SLURM "SLURM_STEP_RESV_PORTS=12000-13000");
    ck_assert(env.nports == SS_ENV_PORTS && env.ports[15] == 12015);
    expect(SLURM "SLURM_LAUNCH_NODE_IPADDR=10.0.0.1");
    ck_assert_str_eq(env.host, "gpu003");
    ck_assert_str_eq(env.fallback, "10.0.0.1");
    /* An explicit address, and variables of torchrun with the same values. */
    expect(SLURM "MASTER_ADDR=here MASTER_PORT=4711 WORLD_SIZE=8 RANK=5");
    ck_assert(env.kind == SS_ENV_SLURM && env.nports == 1 && env.ports[0] == 4711);
    ck_assert_str_eq(env.host, "here");
    expect(SLURM "SLURM_STEP_NODELIST= MASTER_ADDR=here");
    ck_assert_str_eq(env.host, "here");
}
END_TEST

/* Environments of a single process. */
static const char *const alone[] = {
    "",
    "MASTER_ADDR=here MASTER_PORT=4711",
    "RANK= WORLD_SIZE=",
    /* A batch script, without and with its step number; an interactive shell; a single task. */
    "SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_JOB_ID=7",
    "SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=7 SLURM_STEP_ID=4294967291",
    "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=8 SLURM_JOB_ID=7 SLURM_STEP_ID=4294967290",
    "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_JOB_ID=7 SLURM_STEP_ID=0",
    "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=here MASTER_PORT=1",
};

START_TEST(one)
{
    expect(alone[_i]);
    ck_assert_int_eq(env.size, 1);
    ck_assert_int_eq(env.rank, 0);
}
END_TEST

static const struct {
    const char *variables, *message;
} wrong[] = {
    {"RANK=3", "WORLD_SIZE is not set, but RANK is (3)"},
    {"WORLD_SIZE=8", "RANK is not set, but WORLD_SIZE is (8)"},
    {"LOCAL_RANK=0", "RANK is not set, but LOCAL_RANK is (0)"},
    {TORCH "LOCAL_WORLD_SIZE=", "LOCAL_WORLD_SIZE is not set, but RANK is (5)"},
    {TORCH "MASTER_ADDR=", "MASTER_ADDR is not set"},
    {TORCH "MASTER_PORT=", "MASTER_PORT is not set"},
    {TORCH "RANK=8", "RANK is \"8\", not a whole number from 0 to 7"},
    {TORCH "RANK=-1", "RANK is \"-1\", not a whole number"},
    {TORCH "RANK=+1", "RANK is \"+1\", not a whole number"},
    {TORCH "RANK=5x", "RANK is \"5x\", not a whole number"},
    {TORCH "RANK=99999999999999999999", "not a whole number"},
    {TORCH "WORLD_SIZE=0", "WORLD_SIZE is \"0\""},
    {TORCH "WORLD_SIZE=65537", "from 1 to 65536"},
    {TORCH "LOCAL_RANK=4", "LOCAL_RANK is \"4\", not a whole number from 0 to 3"},
    {TORCH "LOCAL_WORLD_SIZE=9", "LOCAL_WORLD_SIZE is \"9\""},
    {TORCH "RANK=1 LOCAL_RANK=3", "RANK 1 of WORLD_SIZE 8 cannot be LOCAL_RANK 3"},
    {TORCH "RANK=7 LOCAL_RANK=0", "RANK 7 of WORLD_SIZE 8 cannot be LOCAL_RANK 0"},
    {TORCH "MASTER_PORT=0", "MASTER_PORT is \"0\", not a whole number from 1 to 65535"},
    {TORCH "MASTER_PORT=65536", "MASTER_PORT is \"65536\""},
    {TORCH "RANK=0 LOCAL_RANK=0 STARSTEP_LISTEN_FD=2",
     "STARSTEP_LISTEN_FD is \"2\", not a whole number from 3"},
    {TORCH "RANK=0 LOCAL_RANK=0 STARSTEP_LISTEN_FD=3x", "STARSTEP_LISTEN_FD is \"3x\""},
    {TORCH "RANK=0 LOCAL_RANK=0 STARSTEP_LISTEN_FD=9999999999", "STARSTEP_LISTEN_FD is"},
    {TORCH "MASTER_PORT=65535 TORCHELASTIC_USE_AGENT_STORE=True", "from 1 to 65534"},
    {SLURM "SLURM_PROCID=8", "SLURM_PROCID is \"8\", not a whole number from 0 to 7"},
    {SLURM "SLURM_PROCID=", "SLURM_PROCID is not set, but SLURM_STEP_NUM_TASKS is (8)"},
    {SLURM "SLURM_LOCALID=", "SLURM_LOCALID is not set, but SLURM_PROCID is (5)"},
    {SLURM "SLURM_NODEID=x", "SLURM_NODEID is \"x\""},
    {SLURM "SLURM_JOB_ID=", "SLURM_JOB_ID is not set"},
    {SLURM "SLURM_STEP_ID=", "SLURM_STEP_ID is not set"},
    {SLURM "SLURM_STEP_NODELIST=", "SLURM_STEP_NODELIST is not set"},
    {SLURM "SLURM_STEP_NODELIST=gpu[", "SLURM_STEP_NODELIST is \"gpu[\", not a list of hosts"},
    {SLURM "SLURM_STEP_NUM_TASKS=many", "SLURM_STEP_NUM_TASKS is \"many\""},
    {SLURM "SLURM_STEP_RESV_PORTS=12000-", "not a list of ports"},
    {SLURM "SLURM_STEP_RESV_PORTS=70000", "not a list of ports"},
    {SLURM "SLURM_STEP_RESV_PORTS=5-4", "not a list of ports"},
    {SLURM "SLURM_STEP_RESV_PORTS=5;6", "not a list of ports"},
    {SLURM "RANK=4", "RANK is \"4\", but SLURM_PROCID is 5"},
    {SLURM "WORLD_SIZE=16", "WORLD_SIZE is \"16\", but SLURM_STEP_NUM_TASKS is 8"},
    {SLURM "LOCAL_RANK=5", "LOCAL_RANK is \"5\", but SLURM_LOCALID is 1"},
    {SLURM "MASTER_PORT=http", "MASTER_PORT is \"http\""},
};

START_TEST(refused)
{
    struct ss_comm_config config = {"auto", 1};
    struct ss_comm *comm;
    forget();
    set(wrong[_i].variables);
    ck_assert_int_eq(ss_comm_env_read(&env), SS_ERR_INVALID);
    ck_assert_msg(strstr(ss_log_last_error(), wrong[_i].message), "%s: %s", wrong[_i].variables,
                  ss_log_last_error());
    ck_assert_ptr_null(strchr(ss_log_last_error(), '\n'));
    /* It must not become a world of one rank. */
    ck_assert_int_eq(ss_comm_open(&config, &comm), SS_ERR_INVALID);
}
END_TEST

START_TEST(long_host)
{
    char host[400];
    forget();
    set(TORCH);
    memset(host, 'h', sizeof host);
    host[SS_ENV_HOST - 1] = '\0';
    setenv("MASTER_ADDR", host, 1);
    ck_assert_int_eq(ss_comm_env_read(&env), SS_OK);
    ck_assert_str_eq(env.host, host);
    host[SS_ENV_HOST - 1] = 'h';
    host[SS_ENV_HOST] = '\0';
    setenv("MASTER_ADDR", host, 1);
    ck_assert_int_eq(ss_comm_env_read(&env), SS_ERR_INVALID);
}
END_TEST

static const struct {
    const char *list, *first; /* NULL: refused */
} lists[] = {
    {"node1", "node1"},
    {"node1,node2", "node1"},
    {"node[1-2]", "node1"},
    {"gpu[003-017,021],login1", "gpu003"},
    {"gpu[021,003-017]", "gpu021"},
    {"gpu[7]", "gpu7"},
    {"n[08-12]", "n08"},
    {"n[99-101]", "n99"},
    {"login1,gpu[003-017]", "login1"},
    {"rack[0-3]node[10-14]", "rack0node10"},
    {"rack[00-03]-gpu[1,3]x,other", "rack00-gpu1x"},
    {"n[1-2]-ib0", "n1-ib0"},
    {"n[1-2].cluster.example.org,m", "n1.cluster.example.org"},
    {"a-b-c", "a-b-c"},
    {"node-1,node-[2-3]", "node-1"},
    {"under_score[1-2]", "under_score1"},
    {"[1-4]", "1"},
    {"[001-4]", "001"},
    {"10.0.0.1", "10.0.0.1"},
    {"n[1-2,4-5,7]", "n1"},
    {"n[0-4095]", "n0"},
    {"n[1,", NULL},
    {"n[1-2", NULL},
    {"n[1-", NULL},
    {"n[", NULL},
    {"n[]", NULL},
    {"n[-2]", NULL},
    {"n[1-2]]", NULL},
    {"n]1", NULL},
    {"n[1,]", NULL},
    {"n[,1]", NULL},
    {"n[2-1]", NULL},
    {"n[1--2]", NULL},
    {"n[1-2-3]", NULL},
    {"n[a-b]", NULL},
    {"n[1[2]]", NULL},
    {"n[12345678901]", NULL},
    {"", NULL},
    {",n1", NULL},
    {"n 1", NULL},
    {"n1;rm", NULL},
    {"(null)", NULL},
};

START_TEST(first_host)
{
    char host[32] = "";
    enum ss_status status = ss_hostlist_first("LIST", lists[_i].list, host, sizeof host);
    forget();
    if (lists[_i].first) {
        ck_assert_msg(status == SS_OK, "%s", lists[_i].list);
        ck_assert_str_eq(host, lists[_i].first);
    } else {
        ck_assert_msg(status == SS_ERR_INVALID, "%s", lists[_i].list);
    }
    /* A buffer of exactly the name and its terminating zero. */
    if (lists[_i].first) {
        size_t n = strlen(lists[_i].first);
        memset(host, '#', sizeof host);
        ck_assert_int_eq(ss_hostlist_first("LIST", lists[_i].list, host, n + 1), SS_OK);
        ck_assert_int_eq(host[n + 1], '#');
        ck_assert_int_eq(ss_hostlist_first("LIST", lists[_i].list, host, n), SS_ERR_INVALID);
    }
}
END_TEST

/* Keys depend on the secret and the job; proofs depend on every field of the messages. */
START_TEST(proofs)
{
    unsigned char key[SS_SHA256_BYTES], other[SS_SHA256_BYTES], proof[SS_SHA256_BYTES],
        changed[SS_SHA256_BYTES];
    struct ss_tcp_hello hello, hello2;
    struct ss_tcp_answer challenge, answer, refusal;
    expect(SLURM);
    ck_assert_int_eq(ss_tcp_key(&env, key), SS_ERR_INVALID);
    set("STARSTEP_SECRET=fifteen-letters");
    ck_assert_int_eq(ss_tcp_key(&env, key), SS_ERR_INVALID);
    ck_assert_ptr_null(strstr(ss_log_last_error(), "fifteen-letters"));
    set("STARSTEP_SECRET=sixteen--letters");
    ck_assert_int_eq(ss_tcp_key(&env, key), SS_OK);
    set("STARSTEP_SECRET=Sixteen--letters");
    ck_assert_int_eq(ss_tcp_key(&env, other), SS_OK);
    ck_assert(!ss_digest_equal(key, other));
    set("STARSTEP_SECRET=sixteen--letters");
    strcpy(env.job, "slurm 1234.3");
    ck_assert_int_eq(ss_tcp_key(&env, other), SS_OK);
    ck_assert(!ss_digest_equal(key, other));

    ck_assert_int_eq(ss_tcp_hello_fill(&env, &hello), SS_OK);
    ck_assert_int_eq(ss_tcp_hello_fill(&env, &hello2), SS_OK);
    ck_assert(!ss_digest_equal(hello.nonce, hello2.nonce));
    ck_assert_int_eq(ss_tcp_challenge_fill(&challenge), SS_OK);
    ck_assert(!ss_digest_equal(challenge.bytes, hello.nonce));
    ss_tcp_rank_proof(key, &hello, &challenge, proof);
    ss_tcp_rank_proof(other, &hello, &challenge, changed);
    ck_assert(!ss_digest_equal(proof, changed));
    ss_tcp_rank_proof(key, &hello2, &challenge, changed);
    ck_assert(!ss_digest_equal(proof, changed));
    hello2 = hello;
    hello2.rank++;
    ss_tcp_rank_proof(key, &hello2, &challenge, changed);
    ck_assert(!ss_digest_equal(proof, changed));

    ss_tcp_answer_fill(&answer, SS_TCP_ACCEPTED);
    ss_tcp_root_proof(key, &hello, &challenge, &answer, answer.bytes);
    ck_assert(!ss_digest_equal(proof, answer.bytes));
    ss_tcp_root_proof(key, &hello, &challenge, &answer, changed);
    ck_assert(ss_digest_equal(answer.bytes, changed));
    refusal = answer;
    refusal.code = SS_TCP_REFUSED;
    ss_tcp_root_proof(key, &hello, &challenge, &refusal, changed);
    ck_assert(!ss_digest_equal(answer.bytes, changed));
    challenge.bytes[31] ^= 1;
    ss_tcp_root_proof(key, &hello, &challenge, &answer, changed);
    ck_assert(!ss_digest_equal(answer.bytes, changed));
}
END_TEST

/* The signed data are part of the protocol: builds of one version must be compatible. */
START_TEST(golden_proofs)
{
    static const char *const golden[] = {
        "fba7fa379ed50a4f5b6abe11f131440957517f1f4c034f38d1d3ffab81267cca",
        "62f6718920ddcce9179477a7ca6201200a8484ab40ad3032ebfbdc043dfcb272"}; /* by Python's hmac */
    unsigned char key[SS_SHA256_BYTES], proof[2][SS_SHA256_BYTES];
    struct ss_tcp_hello hello;
    struct ss_tcp_answer challenge, answer;
    memset(key, 1, sizeof key);
    memset(&hello, 2, sizeof hello);
    memset(&challenge, 3, sizeof challenge);
    memset(&answer, 4, sizeof answer);
    ss_tcp_rank_proof(key, &hello, &challenge, proof[0]);
    ss_tcp_root_proof(key, &hello, &challenge, &answer, proof[1]);
    for (int k = 0; k < 2; k++) {
        char text[2 * SS_SHA256_BYTES + 1];
        for (int i = 0; i < SS_SHA256_BYTES; i++)
            snprintf(text + 2 * i, 3, "%02x", proof[k][i]);
        ck_assert_str_eq(text, golden[k]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("comm_tcp_env");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, forget, NULL);
    tcase_add_test(tc, torchrun);
    tcase_add_test(tc, golden_proofs);
    tcase_add_test(tc, listener);
    tcase_add_test(tc, slurm);
    tcase_add_loop_test(tc, one, 0, sizeof alone / sizeof alone[0]);
    tcase_add_loop_test(tc, refused, 0, sizeof wrong / sizeof wrong[0]);
    tcase_add_test(tc, long_host);
    tcase_add_loop_test(tc, first_host, 0, sizeof lists / sizeof lists[0]);
    tcase_add_test(tc, proofs);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
