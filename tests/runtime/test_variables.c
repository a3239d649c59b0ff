/* test_variables.c: every variable that StarPU documents (starpu_variables.txt: version 1.4.12)
 * has a row in ss_variables and in docs/starpu.md, and is handled as listed there. */
#include "runtime/environment.h"
#include "runtime/variables.h"
#include "tests/data_common.h"

#include <sys/wait.h>

static char page[65536];

static void read_into(const char *file, char *text, size_t bytes)
{
    const char *top = getenv("top_srcdir");
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", top ? top : ".", file);
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s: %m", path);
    size_t n = fread(text, 1, bytes - 1, f);
    ck_assert_uint_lt(n, bytes - 1);
    text[n] = '\0';
    fclose(f);
}

START_TEST(all_are_known)
{
    static char names[16384];
    char *save, *name;
    int n = 0;
    read_into("tests/runtime/starpu_variables.txt", names, sizeof names);
    for (name = strtok_r(names, "\n", &save); name; name = strtok_r(NULL, "\n", &save), n++)
        ck_assert_msg(ss_variable_find(name, strlen(name)) != NULL, "%s has no row", name);
    ck_assert_int_gt(n, 150);
    ck_assert_ptr_null(ss_variable_find("STARPU_SCHEDD", 13));
}
END_TEST

/* Return the page's text from the section of this use. */
static const char *section(enum ss_variable_use use)
{
    const char *heading = use == SS_VARIABLE_SET       ? "\n## Set\n"
                          : use == SS_VARIABLE_REFUSED ? "\n## Refused\n"
                                                       : "\n## Acts\n";
    const char *at = strstr(page, heading);
    ck_assert_ptr_nonnull(at);
    return at + strlen(heading);
}

START_TEST(all_are_told)
{
    read_into("docs/starpu.md", page, sizeof page);
    for (const struct ss_variable *v = ss_variables; v->name; v++) {
        char cell[128];
        const char *at = section(v->use), *end = strstr(at, "\n## "), *found;
        snprintf(cell, sizeof cell, "`%s`", v->name);
        found = strstr(at, cell);
        ck_assert_msg(found && (!end || found < end), "%s is missing from docs/starpu.md", cell);
    }
}
END_TEST

/* In a separate process, because the environment is read only once. */
static int prepare_with(const char *name, const char *value)
{
    int code;
    fflush(NULL);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        setenv(name, value, 1);
        _exit(ss_environment_prepare() != SS_OK);
    }
    ck_assert_int_eq(waitpid(pid, &code, 0), pid);
    ck_assert_msg(WIFEXITED(code), "%s=%s", name, value);
    return WEXITSTATUS(code);
}

START_TEST(all_do_so)
{
    for (const struct ss_variable *v = ss_variables; v->name; v++) {
        char name[128];
        const size_t n = strcspn(v->name, "*");
        snprintf(name, sizeof name, "%.*s%s", (int)n, v->name, v->name[n] ? "x" : "");
        if (v->use != SS_VARIABLE_ACTS)
            ck_assert_msg(prepare_with(name, "nonsense") == 1, "%s=nonsense is accepted", name);
        if (v->value)
            ck_assert_msg(prepare_with(name, v->value) == 0, "%s=%s is refused", name, v->value);
        if (v->use == SS_VARIABLE_NUMBER)
            ck_assert_msg(prepare_with(name, "1") == 0, "%s=1 is refused", name);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("variables");
    TCase *t = tcase_create("table");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, all_are_known);
    tcase_add_test(t, all_are_told);
    tcase_add_test(t, all_do_so);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
