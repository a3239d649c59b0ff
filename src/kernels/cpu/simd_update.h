/* Row functions of updates and the EMA of parameters. */

/* A separate function, because a loop that declares variables and takes their address is not
 * vectorized. */
SS_BODY void SS_NAME(update_element)(enum ss_rule rule, const struct ss_rule_terms *t, float *w,
                                     float g, float *s0, float *s1)
{
    const int states = ss_rule_states(rule);
    float s[SS_UPDATE_STATES] = {states > 0 ? *s0 : 0, states > 1 ? *s1 : 0};
    *w = ss_rule_element(rule, t, *w, g, s);
    if (states > 0)
        *s0 = s[0];
    if (states > 1)
        *s1 = s[1];
}

SS_BODY void SS_NAME(update_body)(enum ss_rule rule, const struct ss_update *u,
                                  const struct ss_rule_terms *terms, size_t at, size_t count)
{
    const struct ss_rule_terms t = *terms;
    const int states = ss_rule_states(rule);
    const float scale = u->scale, *g = u->g + at;
    float *w = u->w + at, *s0 = states > 0 ? u->state[0] + at : w, /* unused */
                              *s1 = states > 1 ? u->state[1] + at : w;
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        SS_NAME(update_element)(rule, &t, w + i, scale * g[i], s0 + i, s1 + i);
}

SS_TARGET static void SS_NAME(update)(const struct ss_update *u, const struct ss_rule_terms *terms,
                                      size_t at, size_t count)
{
    SS_RULE_DISPATCH(u->rule, SS_NAME(update_body)(RULE, u, terms, at, count));
}

SS_BODY void SS_NAME(direction_body)(enum ss_rule rule, const struct ss_update *u,
                                     const struct ss_rule_terms *terms, size_t at, size_t count,
                                     float *out)
{
    const struct ss_rule_terms t = *terms;
    const int states = ss_rule_states(rule);
    const float scale = u->scale, *g = u->g + at, *w = u->w + at,
                *s0 = states > 0 ? u->state[0] + at : w, *s1 = states > 1 ? u->state[1] + at : w;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        const float state[SS_UPDATE_STATES] = {s0[i], s1[i]};
        out[i] = ss_rule_direction(rule, &t, w[i], scale * g[i], state);
    }
}

SS_TARGET static void SS_NAME(direction)(const struct ss_update *u,
                                         const struct ss_rule_terms *terms, size_t at, size_t count,
                                         float *out)
{
    SS_RULE_DISPATCH(u->rule, SS_NAME(direction_body)(RULE, u, terms, at, count, out));
}

/* Products of two fp32 numbers are exact in double, so fused and separate operations give the
 * same sums. */
SS_TARGET static double SS_NAME(squares)(const float *x, size_t count)
{
    double lane[SS_FIXED_WIDTH] = {0}, sum = 0;
    size_t i = 0;
    for (; i + SS_FIXED_WIDTH <= count; i += SS_FIXED_WIDTH)
        for (int k = 0; k < SS_FIXED_WIDTH; k++)
            lane[k] += (double)x[i + (size_t)k] * (double)x[i + (size_t)k];
    for (; i < count; i++)
        lane[0] += (double)x[i] * (double)x[i];
    for (int k = 0; k < SS_FIXED_WIDTH; k++)
        sum += lane[k];
    return sum;
}

SS_TARGET static void SS_NAME(average)(const float *w, float weight, float *ema, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        ema[i] = ss_average(ema[i], w[i], weight);
}
