/* test_plot.c: SVG plots, compared with the files in tests/plot/; axes and their tick marks. */
#include "apps/plot/plot.h"
#include "apps/plot/scale.h"
#include "tests/data_common.h"
#include "tests/golden.h"

#include <math.h>

enum { POINTS = 12 };

static struct {
    double x[POINTS], y[POINTS];
} data[24];

/* Curves with several slopes from x = 1, one with a missing y. */
static void make_data(void)
{
    for (int c = 0; c < 24; c++)
        for (int k = 0; k < POINTS; k++) {
            data[c].x[k] = 1 + k + (k > 8 ? 6 : 0);
            data[c].y[k] = c == 2 && k == 4 ? NAN : (c + 1) * (1 + k * k) / 4.0;
        }
}

static void is_golden(const struct ss_plot *plot, const char *file)
{
    ck_assert_int_eq(ss_plot_write(in_folder("plot.svg"), plot), SS_OK);
    char *text = read_text("plot.svg");
    golden(file, text);
    free(text);
}

START_TEST(two_panels)
{
    struct ss_curve first[] = {
        {.label = "a < b & \"c\"", .x = data[0].x, .y = data[0].y, .count = POINTS},
        {.label = "id\x7e\x7f\x80\x1f\x20>l",
         .x = data[1].x,
         .y = data[1].y,
         .count = POINTS,
         .ideal = 1},
        {.label = "with a hole", .x = data[2].x, .y = data[2].y, .count = POINTS, .marks = 1},
        {.label = "with a gap", .x = data[3].x, .y = data[3].y, .count = POINTS, .gaps = 1},
        {.label = "a point", .x = data[4].x + 3, .y = data[4].y + 3, .count = 1},
        {.label = "nothing", .x = data[4].x, .y = data[4].y, .count = 0}};
    struct ss_curve second[] = {
        {.label = "rising", .x = data[5].x, .y = data[5].y, .count = 4, .marks = 1, .ideal = 1}};
    const struct ss_panel panels[] = {
        {.title = "first", .y_label = "ms", .curve = first, .curves = 6, .y_top = 700},
        {.title = "second", .y_label = "", .curve = second, .curves = 1, .log = 1}};
    is_golden(
        &(struct ss_plot){.title = "Two panels", .x_label = "epochs", .panel = panels, .panels = 2},
        "plot/panels.svg");
}
END_TEST

START_TEST(many_curves)
{
    static char names[24][24];
    const double ticks[] = {1, 2, 4, 8, 16};
    struct ss_curve curves[24];
    for (int c = 0; c < 24; c++) {
        snprintf(names[c], sizeof names[c], "rank %d", c);
        curves[c] =
            (struct ss_curve){.label = names[c], .x = data[c].x, .y = data[c].y, .count = 3};
    }
    const struct ss_panel panel = {
        .title = "all", .y_label = "images/s", .curve = curves, .curves = 24, .log = 1};
    is_golden(&(struct ss_plot){.title = "Many",
                                .x_label = "ranks",
                                .panel = &panel,
                                .panels = 1,
                                .log = 1,
                                .ticks = ticks,
                                .nticks = 5},
              "plot/many.svg");
}
END_TEST

START_TEST(nothing)
{
    struct ss_curve curve = {.label = "none", .x = data[0].x, .y = data[0].y, .count = 0};
    const struct ss_panel panel = {.title = "", .y_label = "s", .curve = &curve, .curves = 1};
    is_golden(&(struct ss_plot){.title = "Nothing", .x_label = "s", .panel = &panel, .panels = 1},
              "plot/nothing.svg");
    const struct ss_plot plot = {.title = "", .x_label = "", .panel = &panel, .panels = 1};
    expect_error(ss_plot_write(in_folder("no/plot.svg"), &plot), SS_ERR_IO, "/no/plot.svg");
}
END_TEST

static const struct {
    int log;
    double low, high;
    const char *axis; /* from to: tick marks */
} axes[] = {
    {0, 0, 10, "0 10: 0 2 4 6 8 10"},
    {0, 0, 11, "0 15: 0 5 10 15"},
    {0, 0, 1, "0 1: 0 0.2 0.4 0.6 0.8 1"},
    {0, 0, 0.043, "0 0.05: 0 0.01 0.02 0.03 0.04 0.05"},
    {0, 3, 97, "0 100: 0 20 40 60 80 100"},
    {0, -2, 2, "-2 2: -2 -1 0 1 2"},
    {0, 0, 0, "0 1: 0 0.2 0.4 0.6 0.8 1"},
    {0, 5, 5, "5 6: 5 5.2 5.4 5.6 5.8 6"},
    {0, 1e6, 2.5e6, "1e+06 2.5e+06: 1e+06 1.5e+06 2e+06 2.5e+06"},
    {1, 1, 100, "0.869565 115: 1 2 5 10 20 50 100"},
    {1, 0.3, 4, "0.26087 4.6: 0.5 1 2"},
    {1, 8, 8, "6.95652 9.2: 7 7.5 8 8.5 9"},
    {1, 3, 4, "2.6087 4.6: 3 3.5 4 4.5"},
    {1, 1e-4, 1e4, "8.69565e-05 11500: 0.0001 0.001 0.01 0.1 1 10 100 1000 10000"},
};

START_TEST(marks)
{
    char text[512];
    const struct ss_scale s = axes[_i].log ? ss_scale_log(axes[_i].low, axes[_i].high)
                                           : ss_scale_linear(axes[_i].low, axes[_i].high);
    int used = snprintf(text, sizeof text, "%g %g:", s.from, s.to);
    for (int k = 0; k < s.ticks; k++)
        used += snprintf(text + used, sizeof text - (size_t)used, " %g", s.tick[k]);
    ck_assert_str_eq(text, axes[_i].axis);
    ck_assert_int_eq(s.log, axes[_i].log);
}
END_TEST

START_TEST(places)
{
    struct ss_scale s = ss_scale_linear(0, 10);
    s.at = 100;
    s.end = 300;
    ck_assert_double_eq_tol(ss_scale_place(&s, 0), 100, 1e-9);
    ck_assert_double_eq_tol(ss_scale_place(&s, 2.5), 150, 1e-9);
    ck_assert_double_eq_tol(ss_scale_place(&s, 10), 300, 1e-9);
    s = ss_scale_log(1, 100);
    s.at = 300;
    s.end = 100;
    ck_assert_double_eq_tol(ss_scale_place(&s, 1 / 1.15), 300, 1e-9);
    ck_assert_double_eq_tol(ss_scale_place(&s, 10), 200, 1e-9);
    ck_assert_double_eq_tol(ss_scale_place(&s, 115), 100, 1e-9);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plot");
    TCase *t = tcase_create("plot");
    tcase_add_checked_fixture(t, make_folder, remove_folder);
    tcase_add_checked_fixture(t, make_data, NULL);
    tcase_add_test(t, two_panels);
    tcase_add_test(t, many_curves);
    tcase_add_test(t, nothing);
    tcase_add_loop_test(t, marks, 0, sizeof axes / sizeof *axes);
    tcase_add_test(t, places);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
