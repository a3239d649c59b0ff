/* The kernels, one line each. The devices' tables and the declarations of their functions are
 * generated from them (kernels.h, cpu/cpu.h, cuda/gpu.h). KERNEL(name, arguments) returns an enum
 * ss_status; KERNEL_OF(type, name, arguments) another type. GPU_ kernels are NULL on a CPU, CPU_
 * kernels on a GPU.
 *
 * Tensors named w, x, y, z, r, dx, dy, dz, ds are of the device's dtype, in the layout of their
 * struct ss_act, 64-byte aligned (a slice of a batch: 16). Everything else (statistics, gamma,
 * beta, biases, master weights, all gradients of parameters) is fp32. Outputs are overwritten.
 *
 * Errors: SS_ERR_LIBRARY names the failing call, SS_ERR_MEMORY, SS_ERR_SHAPE, SS_ERR_INVALID. */
#ifndef GPU_KERNEL_OF
#    define GPU_KERNEL_OF KERNEL_OF
#endif
#ifndef CPU_KERNEL_OF
#    define CPU_KERNEL_OF KERNEL_OF
#endif
#define KERNEL(name, ...) KERNEL_OF(enum ss_status, name, __VA_ARGS__)
#define GPU_KERNEL(name, ...) GPU_KERNEL_OF(enum ss_status, name, __VA_ARGS__)
#define CPU_KERNEL(name, ...) CPU_KERNEL_OF(enum ss_status, name, __VA_ARGS__)

/* Opens the device. SS_ERR_UNSUPPORTED if it cannot be used; the message contains the reason. */
KERNEL(open, const struct ss_device_options *options, struct ss_device **out)
KERNEL_OF(void, close, struct ss_device *device) /* NULL is allowed */
/* Hash of everything that affects the bits of results and the layouts of parameters; ranks must
 * agree. */
KERNEL_OF(uint64_t, fingerprint, const struct ss_device *device)
/* Blocks until all work of the device is done; reports errors of kernels. */
KERNEL(synchronize, struct ss_device *device)

/* Zeroed memory of the device, and of the host (pinned for a GPU). Only before and after steps.
 * what: purpose, for error messages. */
KERNEL(alloc, struct ss_device *device, size_t bytes, const char *what, void **out)
KERNEL_OF(void, free, void *data) /* NULL is allowed */
KERNEL(alloc_host, struct ss_device *device, size_t bytes, const char *what, void **out)
KERNEL_OF(void, free_host, void *data) /* NULL is allowed */
/* Bytes allocated on a GPU, including scratch and workspaces, and of the whole device. */
KERNEL_OF(void, memory, const struct ss_device *device, size_t *used, size_t *whole)
/* Kernels call reserve when they are created. It may move the scratch immediately, so get its
 * address at each run. Its contents are valid within one kernel function only. */
KERNEL(reserve, struct ss_device *device, size_t bytes)
KERNEL_OF(void *, scratch, const struct ss_device *device)
/* Copies between any two of host and device, and blocks until done. */
KERNEL(copy, struct ss_device *device, void *dst, const void *src, size_t bytes)
/* Enqueue on `stream`; host memory must be pinned. */
KERNEL(copy_async, void *dst, const void *src, size_t bytes, ss_stream stream)
KERNEL(zero_async, void *dst, size_t bytes, ss_stream stream)

/* 2-D convolution: struct ss_conv_shape. The weight is stored in the library's preferred layout
 * (native, also that of its gradient); import and export convert from and to PyTorch's
 * (Co,Ci,kh,kw) on the host, in fp32. Padding inside native is zero and stays zero under any
 * elementwise update. training 0: forward only. SS_ERR_SHAPE: y does not match x. */
KERNEL(conv_create, struct ss_device *device, const struct ss_conv_shape *shape,
       enum ss_conv_algo algo, int training, struct ss_conv_kernel **out)
KERNEL_OF(void, conv_destroy, struct ss_conv_kernel *conv) /* NULL is allowed */
/* Bytes of the native weight in fp32; the same for training 0 and 1. */
KERNEL_OF(size_t, conv_weight_bytes, const struct ss_conv_kernel *conv)
KERNEL(conv_import, struct ss_conv_kernel *conv, const float *plain, float *native)
KERNEL(conv_export, struct ss_conv_kernel *conv, const float *native, float *plain)
/* bias, dbias: NULL iff shape.bias is 0. */
KERNEL(conv_forward, struct ss_conv_kernel *conv, const void *x, const void *w, const float *bias,
       void *y)
KERNEL(conv_backward_data, struct ss_conv_kernel *conv, const void *dy, const void *w, void *dx)
KERNEL(conv_backward_weights, struct ss_conv_kernel *conv, const void *x, const void *dy,
       float *dweight, float *dbias)
/* Forward for training with BatchNorm. sums (2,Co) receives, per channel, the input of
 * norm_act_stats: the sum of y and of its square on a GPU, mean and biased variance on a CPU.
 * Allowed only if conv_has_sums returns 1; on a GPU this depends on ss_gpu_conv_sums. */
KERNEL_OF(int, conv_has_sums, const struct ss_conv_kernel *conv)
KERNEL(conv_forward_sums, struct ss_conv_kernel *conv, const void *x, const void *w,
       const float *bias, void *y, float *sums)
/* conv_makes_x returns whether the convolution can compute its input while reading it, for shapes
 * with makes_x. conv_source sets the source for all passes until the next call; x is z then.
 * source must outlive them. */
CPU_KERNEL_OF(int, conv_makes_x, const struct ss_conv_shape *shape, enum ss_dtype dtype,
              enum ss_conv_algo algo)
CPU_KERNEL(conv_source, struct ss_conv_kernel *conv, const struct ss_norm_source *source)
/* conv_adds returns whether forward can add another tensor r, of y's shape and layout, before
 * storing: conv_forward_add computes y = conv(x) + r. */
CPU_KERNEL_OF(int, conv_adds, const struct ss_conv_shape *shape, enum ss_dtype dtype,
              enum ss_conv_algo algo)
CPU_KERNEL(conv_forward_add, struct ss_conv_kernel *conv, const void *x, const void *w,
           const float *bias, const void *r, void *y)
/* Describes the implementation of each pass, for users; lives as long as conv. */
KERNEL_OF(const char *, conv_info, const struct ss_conv_kernel *conv)

/* Fully connected layer, as PyTorch's Flatten + Linear: y(n,k) = bias(k) + sum_i w(k,i) x(n,i),
 * where i runs over (C,H,W) of x row-major in every layout of x. x (N,C,H,W), y (N,K) plain
 * row-major, no padding; native weight as above, plain weight (K, C*H*W). bias 0: none. */
KERNEL(linear_create, struct ss_device *device, const struct ss_act *x, int outputs, int bias,
       int training, struct ss_linear_kernel **out)
KERNEL_OF(void, linear_destroy, struct ss_linear_kernel *linear) /* NULL is allowed */
KERNEL_OF(size_t, linear_weight_bytes, const struct ss_linear_kernel *linear)
KERNEL(linear_import, struct ss_linear_kernel *linear, const float *plain, float *native)
KERNEL(linear_export, struct ss_linear_kernel *linear, const float *native, float *plain)
/* bias, dbias: NULL iff created without bias. */
KERNEL(linear_forward, struct ss_linear_kernel *linear, const void *x, const void *w,
       const float *bias, void *y)
KERNEL(linear_backward_data, struct ss_linear_kernel *linear, const void *dy, const void *w,
       void *dx)
KERNEL(linear_backward_weights, struct ss_linear_kernel *linear, const void *x, const void *dy,
       float *dweight, float *dbias)

/* Pooling: struct ss_pool_shape. workspace: written by forward, read by backward (NULL: forward
 * only; average pooling needs none). SS_ERR_SHAPE: y does not match x. */
KERNEL(pool_create, struct ss_device *device, const struct ss_pool_shape *shape, int training,
       struct ss_pool_kernel **out)
KERNEL_OF(void, pool_destroy, struct ss_pool_kernel *pool) /* NULL is allowed */
KERNEL_OF(size_t, pool_workspace_bytes, const struct ss_pool_kernel *pool)
KERNEL(pool_forward, struct ss_pool_kernel *pool, const void *x, void *y, void *workspace)
KERNEL(pool_backward, struct ss_pool_kernel *pool, const void *dy, const void *workspace, void *dx)

/* Normalization and activation: struct ss_norm_act. Call reserve once, before step 1. */
KERNEL(norm_act_reserve, struct ss_device *device, const struct ss_norm_act *op)
/* Computes batch statistics of z. saved (2,C): mean, then invstd = 1/sqrt(var + eps). running
 * (2,C): mean, then variance, updated in place; NULL: not updated. z NULL: saved contains the
 * sums of conv_forward_sums. */
KERNEL(norm_act_stats, struct ss_device *device, const struct ss_norm_act *op, const void *z,
       float *saved, float *running)
/* Computes saved from the running statistics, for evaluation. */
KERNEL(norm_act_stats_eval, struct ss_device *device, const struct ss_norm_act *op,
       const float *running, float *saved)
/* y may be z or r if nothing is pooled. gamma, beta (C), saved: NULL without BN. r NULL iff
 * !residual. training 0: no dropout. dropout_key: 64 random bits, different per (seed, step,
 * block, rank), in the memory of the computing device; NULL without dropout. With pooling y is
 * (N, H/pool, W/pool, C); the compared values are those of an unpooled y, rounded to the dtype;
 * the first of equal values wins. workspace, CUDA only: data for backward in addition to saved;
 * NULL: not needed. With pooling it is argmax: one byte per element of y, the row-major index in
 * the window. Otherwise with relu_out it is the mask, one bit per element: 0 where y <= 0. A byte
 * has the bits of 16 bytes of y, the first element in the lowest bit; or of one element if C
 * elements are not a multiple of 16 bytes and there is BN, or if y is not such a multiple. */
KERNEL(norm_act_forward, struct ss_device *device, const struct ss_norm_act *op, const void *z,
       const float *gamma, const float *beta, const float *saved, const void *r, void *y,
       uint8_t *workspace, int training, const uint64_t *dropout_key)
KERNEL(norm_act_backward, struct ss_device *device, const struct ss_norm_act *op,
       const struct ss_norm_act_grad *g)
/* The same in two halves, for statistics over op->ranks ranks, as PyTorch's SyncBatchNorm:
 * between them the sums are all-reduced. Supports neither pooling nor shortcut.
 * - norm_act_sums: sums (2,C) receives the sum of z and of its square. In double they may be
 *   relative to 0: the variance, their difference, has an error of (1 + k^2) 2^-53 if the mean is k
 *   deviations, which is below fp32's own rounding up to k = 20000.
 * - stats_of_sums computes from their totals what norm_act_stats computes from z.
 * - backward_sums writes ds as backward does, but not z, dgamma and dbeta; sums (4,C) receives
 *   sum(g), sum(g (z - mean)), and both again.
 * - backward_apply requires the first two over all ranks, and the others unchanged, for dgamma and
 *   dbeta of this rank. */
KERNEL(norm_act_sums, struct ss_device *device, const struct ss_norm_act *op, const void *z,
       double *sums)
KERNEL(norm_act_stats_of_sums, struct ss_device *device, const struct ss_norm_act *op,
       const double *sums, float *saved, float *running)
KERNEL(norm_act_backward_sums, struct ss_device *device, const struct ss_norm_act *op,
       const struct ss_norm_act_grad *g, double *sums)
KERNEL(norm_act_backward_apply, struct ss_device *device, const struct ss_norm_act *op,
       const struct ss_norm_act_grad *g, const double *sums)

/* Group normalization, as PyTorch's GroupNorm, and the first activation of op, which also
 * provides shape and eps: u = gamma(c) (x - mean) invstd + beta(c), with mean and 1/sqrt(var +
 * eps) over H, W and the C/groups channels of a group, per image; biased variance. saved
 * (2,N,groups): mean, then invstd. Call reserve once, before step 1. Source: Wu and He 2018, eq.
 * 1-6. */
KERNEL(groupnorm_reserve, struct ss_device *device, const struct ss_norm_act *op, int groups)
KERNEL(groupnorm_forward, struct ss_device *device, const struct ss_norm_act *op, int groups,
       const void *x, const float *gamma, const float *beta, float *saved, void *y)
/* dy: the sum of the gradients. dx overwrites x. dgamma, dbeta (C) are overwritten. */
KERNEL(groupnorm_backward, struct ss_device *device, const struct ss_norm_act *op, int groups,
       const void *dy, void *x, const float *gamma, const float *beta, const float *saved,
       float *dgamma, float *dbeta)

/* Gathers channels of other tensors: struct ss_gather. With several parts, n = nparts and x has
 * one tensor per part; with one part, y is made from the sum of x[0] .. x[n-1], n <=
 * SS_NORM_MAX_DY. y must differ from all of them. */
KERNEL(gather, struct ss_device *device, const struct ss_gather *op, const void *const *x, int n,
       void *y)

/* Products: struct ss_mul. Call reserve once, before step 1, if backward will run.
 *   dx = g s     ds = g x, summed where s is broadcast     g = the sum of dy[0] .. dy[n-1]
 * in one pass over memory; dx, ds may be NULL: not computed. ds has the layout of s; with PARAM
 * fp32. dx may be dy[0] or x, and with EQUAL ds another of these. */
KERNEL(mul_reserve, struct ss_device *device, const struct ss_mul *op)
KERNEL(mul_forward, struct ss_device *device, const struct ss_mul *op, const void *x, const void *s,
       void *y)
KERNEL(mul_backward, struct ss_device *device, const struct ss_mul *op, const void *const *dy,
       int n, const void *x, const void *s, void *dx, void *ds)

/* Layer normalization over the channels of each pixel, as PyTorch's LayerNorm(C) of (N,H,W,C): y
 * = gamma(c) (x - mean) invstd + beta(c), with mean and 1/sqrt(var + eps) over C at (n,h,w);
 * biased variance. saved (2,N,H,W): mean, then invstd. Call reserve once, before step 1. Source:
 * Ba, Kiros, Hinton 2016, eq. 3-4. */
KERNEL(layernorm_reserve, struct ss_device *device, const struct ss_act *shape)
KERNEL(layernorm_forward, struct ss_device *device, const struct ss_act *shape, float eps,
       const void *x, const float *gamma, const float *beta, float *saved, void *y)
/* dy: the sum of the gradients. dx NULL: not computed. dgamma, dbeta (C) are overwritten. */
KERNEL(layernorm_backward, struct ss_device *device, const struct ss_act *shape, const void *dy,
       const void *x, const float *gamma, const float *saved, void *dx, float *dgamma, float *dbeta)

/* Converts a map to a sequence: struct ss_tokens_shape. class_token (C), positions (S,C) and
 * their gradients, which are overwritten: NULL if there are none. dx NULL: not computed. */
KERNEL(tokens_forward, struct ss_device *device, const struct ss_tokens_shape *shape, const void *x,
       const float *class_token, const float *positions, void *y)
KERNEL(tokens_backward, struct ss_device *device, const struct ss_tokens_shape *shape,
       const void *dy, void *dx, float *dclass_token, float *dpositions)

/* Selects one pixel of x (N,C,H,W) by its row-major index: y (N,C,1,1) in x's layout. Backward:
 * the gradient of x, 0 elsewhere. */
KERNEL(token_forward, struct ss_device *device, const struct ss_act *x, int index, const void *in,
       void *y)
KERNEL(token_backward, struct ss_device *device, const struct ss_act *x, int index, const void *dy,
       void *dx)

/* Attention: struct ss_attention_shape. saved (N,heads,S): per query the log of the sum of its
 * exponentials, which backward uses instead of the probabilities. */
KERNEL(attention_create, struct ss_device *device, const struct ss_attention_shape *shape,
       int training, struct ss_attention_kernel **out)
KERNEL_OF(void, attention_destroy, struct ss_attention_kernel *attention) /* NULL is allowed */
KERNEL(attention_forward, struct ss_attention_kernel *attention, const void *x, float *saved,
       void *y)
KERNEL(attention_backward, struct ss_attention_kernel *attention, const void *x, const void *dy,
       const float *saved, void *dx)

/* Computes dst[i] = src[0][i] + ... + src[n-1][i], in fp32; dst may be src[0]; 1 <= n <=
 * SS_NORM_MAX_DY. */
KERNEL(sum, struct ss_device *device, const void *const *src, int n, void *dst, size_t count)
/* Accumulates gradients of a bucket over micro-batches, fp32: dst[i] = src[i]; with add: dst[i] =
 * (dst[i] + src[i]) * factor. */
KERNEL(accumulate, struct ss_device *device, size_t count, const float *src, int add, float factor,
       float *dst)

/* Softmax cross-entropy with the mean over the batch, as PyTorch's CrossEntropyLoss with
 * probabilities t and label_smoothing:
 *   loss = - sum over valid n, and k, of t(n,k) log softmax(logits(n))[k] / N
 *   t(n,k) = (1 - smoothing) (share [k = label] + (1 - share) [k = other]) + smoothing / K
 * logits (N,K) row-major; labels (N), with label -1 for a row that does not count (in the short
 * last batch of an evaluation); smoothing in [0, 1). metrics: with accumulate += this batch, else
 * = this batch; its scale is the scaler's (NULL: 1). dlogits (may be logits; NULL: none) = scale
 * * (softmax - t) / N, 0 for rows that do not count. Sums over rows in double, in an order that
 * depends on N only. A class outside -1 .. K-1: SS_ERR_INVALID; on a GPU its row counts as `bad`
 * and the loss is NaN. */
KERNEL(loss_reserve, struct ss_device *device, int n, int k)
KERNEL(loss, struct ss_device *device, int n, int k, const void *logits,
       const struct ss_label *labels, float smoothing, const struct ss_scaler *scaler,
       struct ss_metrics *metrics, int accumulate, void *dlogits)

/* Casts fp32 to the dtype, which is not fp32, with round to nearest even. */
KERNEL(cast, struct ss_device *device, const float *src, void *dst, size_t count)

/* ---- GPUs ---- */

/* Number of devices that this process may use; also 0 without a driver. Never fails. */
GPU_KERNEL_OF(int, count, void)
/* The bus id of one of these devices, "0000:1b:00.0" in lower case, and its name. */
GPU_KERNEL(bus_id, int device, char *text, size_t bytes)
GPU_KERNEL(name, int device, char *text, size_t bytes)
/* "NVIDIA H200 (sm_90), CUDA 13.0, driver 13.0, cuDNN 9.19.0"; lives as long as the device. */
GPU_KERNEL_OF(const char *, info, const struct ss_device *device)

/* Sets the stream for the following calls. */
GPU_KERNEL(set_stream, struct ss_device *device, ss_stream stream)
KERNEL_OF(ss_stream, stream, const struct ss_device *device) /* NULL on a CPU */
/* priority 0: normal, 1: high. The caller owns streams and events. */
GPU_KERNEL(stream_create, struct ss_device *device, int priority, ss_stream *out)
GPU_KERNEL_OF(void, stream_destroy, ss_stream stream) /* NULL is allowed */
/* timing 0: for ordering only. */
GPU_KERNEL(event_create, struct ss_device *device, int timing, ss_event *out)
GPU_KERNEL_OF(void, event_destroy, ss_event event) /* NULL is allowed */
GPU_KERNEL(record, ss_event event, ss_stream stream)
GPU_KERNEL(wait, ss_stream stream, ss_event event)
/* Blocks until a recorded event has completed. */
GPU_KERNEL(finish, ss_event event)
/* Milliseconds between two recorded and completed events. From any thread. */
GPU_KERNEL(elapsed, struct ss_device *device, ss_event begin, ss_event end, float *ms)
/* Returns NULL, or a message if the device has failed permanently, such as by a kernel's illegal
 * access: all later calls fail. */
GPU_KERNEL_OF(const char *, fault, ss_stream stream)
/* Sets the handler of permanent failures. handler(what) is called by the first thread that gets
 * the error from its stream or event, possibly inside StarPU. NULL: none. */
GPU_KERNEL_OF(void, on_fault, void (*handler)(const char *what))
/* Clears the error that a failed call of another library left in this thread (StarPU makes calls
 * that may be refused); otherwise the next launch would report it. */
GPU_KERNEL_OF(void, clear_errors, void)
/* emulate_time makes an emulated device simulate time only, without computation; call it before
 * the device is opened. Collectives are real until the first spend, and again after another call
 * of emulate_time. spend lets time pass on a stream. SS_ERR_UNSUPPORTED on a GPU. */
GPU_KERNEL(emulate_time, void)
GPU_KERNEL(spend, ss_stream stream, double seconds)

/* CUDA graphs. Work that this thread enqueues on the stream between capture_begin and capture_end
 * does not run: it is recorded with its arguments, and runs at each launch, in this order.
 * Meanwhile the thread must not allocate or free device memory or wait for the device, and may
 * record and wait for events of this capture only. capture_end must be called even if a call in
 * between has failed: if CUDA does not allow such a call, it returns SS_ERR_UNSUPPORTED, *out is
 * NULL, and the stream is usable as before. The caller destroys the graph; a running one
 * completes. */
GPU_KERNEL(capture_begin, struct ss_device *device, ss_stream stream)
GPU_KERNEL(capture_end, struct ss_device *device, ss_stream stream, struct ss_gpu_graph **out)
GPU_KERNEL(graph_launch, struct ss_gpu_graph *graph, ss_stream stream)
GPU_KERNEL_OF(void, graph_destroy, struct ss_gpu_graph *graph) /* NULL is allowed */
/* Sets dst[i] = values[i], ordered on the device's stream. values is host memory and may be
 * reused when the call returns. For few values. */
GPU_KERNEL(put_numbers, struct ss_device *device, const uint64_t *values, size_t count,
           uint64_t *dst)

/* Converts the network's input: uint8 (N,C,H,W) to the dtype's (N,H,W,B), x = (byte / 255 -
 * mean(c)) / std(c), channels C .. B-1 zero. mean and std: C values each, C <= SS_INPUT_CHANNELS,
 * on the host. As ToTensor and Normalize. */
GPU_KERNEL(convert, struct ss_device *device, const struct ss_act *x, const uint8_t *images,
           const float *mean, const float *std, void *out)
/* Runs one step of an optimizer over a bucket, see update.h. */
KERNEL(update, struct ss_device *device, const struct ss_update *u)
/* Computes the sum of squares of g, for clipping: *sum += it, or with `first` *sum = it. In
 * double, in an order that depends on count only. Call update_reserve first, with the chunks of
 * the largest count. */
KERNEL(squares, struct ss_device *device, size_t count, const float *g, int first, double *sum)
KERNEL(update_reserve, struct ss_device *device, size_t chunks)
/* Normalization and activation with an operation on the residual: struct ss_norm_shortcut. As
 * norm_act_forward and norm_act_backward, but with BN ds is not written. Call both reserves. */
GPU_KERNEL(norm_shortcut_reserve, struct ss_device *device, const struct ss_norm_act *op)
GPU_KERNEL(norm_shortcut_forward, struct ss_device *device, const struct ss_norm_act *op,
           const void *z, const float *gamma, const float *beta, const float *saved,
           const struct ss_norm_shortcut *shortcut, void *y, uint8_t *mask, int training,
           const uint64_t *dropout_key)
GPU_KERNEL(norm_shortcut_backward, struct ss_device *device, const struct ss_norm_act *op,
           const struct ss_norm_act_grad *g, const struct ss_norm_shortcut *shortcut)
/* From now on, kernels that compute gradients of parameters set scaler->found if a gradient is
 * not finite. NULL: no check, the initial state. */
GPU_KERNEL_OF(void, watch_gradients, struct ss_device *device, struct ss_scaler *scaler)
/* scaler_check sets scaler->found if grads has a non-finite value. scaler_update ends a step,
 * after the updates: computes the new scale. */
GPU_KERNEL(scaler_check, struct ss_device *device, size_t count, const float *grads,
           struct ss_scaler *scaler)
GPU_KERNEL(scaler_update, struct ss_device *device, struct ss_scaler *scaler)
/* Gradients sent between GPUs in 2 bytes (fp16 or bf16, independent of the device's dtype):
 * dst[i] = round(src[i] * scale), and dst[i] = src[i] * scale. Bit-identical to cpu/wire.h. */
GPU_KERNEL(wire_pack, const struct ss_device *device, enum ss_dtype dtype, const float *src,
           float scale, void *dst, size_t count, ss_stream stream)
GPU_KERNEL(wire_unpack, const struct ss_device *device, enum ss_dtype dtype, const void *src,
           float scale, float *dst, size_t count, ss_stream stream)

#undef KERNEL
#undef KERNEL_OF
#undef GPU_KERNEL
#undef GPU_KERNEL_OF
#undef CPU_KERNEL
#undef CPU_KERNEL_OF
