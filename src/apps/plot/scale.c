#include "apps/plot/scale.h"

#include <math.h>

struct ss_scale ss_scale_linear(double low, double high)
{
    if (!(high > low))
        high = low + fmax(1, fabs(low) / 10);
    double rough = (high - low) / 5, power = pow(10, floor(log10(rough))), step = 10 * power;
    for (int i = 0; i < 3; i++) {
        static const double steps[] = {1, 2, 5};
        if (rough <= steps[i] * power * (1 + 1e-9)) {
            step = steps[i] * power;
            break;
        }
    }
    double first = floor(low / step + 1e-9), last = ceil(high / step - 1e-9);
    struct ss_scale s = {.from = first * step, .to = last * step};
    for (double k = first; k <= last && s.ticks < SS_MAX_TICKS; k++)
        s.tick[s.ticks++] = k * step;
    return s;
}

struct ss_scale ss_scale_log(double low, double high)
{
    struct ss_scale s = {.log = 1, .from = low / 1.15, .to = high * 1.15};
    int coarse = log10(high / low) > 4;
    for (double power = pow(10, floor(log10(s.from))); power <= s.to; power *= 10)
        for (int i = 0; i < (coarse ? 1 : 3); i++) {
            static const double parts[] = {1, 2, 5};
            double tick = parts[i] * power;
            if (tick >= s.from && tick <= s.to && s.ticks < SS_MAX_TICKS)
                s.tick[s.ticks++] = tick;
        }
    if (s.ticks < 3) { /* short range: use equal steps */
        const struct ss_scale even = ss_scale_linear(s.from, s.to);
        s.ticks = 0;
        for (int i = 0; i < even.ticks; i++)
            if (even.tick[i] >= s.from && even.tick[i] <= s.to)
                s.tick[s.ticks++] = even.tick[i];
    }
    return s;
}

double ss_scale_place(const struct ss_scale *s, double value)
{
    double part = s->log ? log(value / s->from) / log(s->to / s->from)
                         : (value - s->from) / (s->to - s->from);
    return s->at + part * (s->end - s->at);
}
