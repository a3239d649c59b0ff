/* nccl_all_reduce.cpp: reductions of the emulated NCCL; names of calls, types and operations. */
#include "hostgpu/nccl_internal.h"

#include <cmath>
#include <type_traits>

namespace hostgpu
{
namespace nccl
{

namespace
{

struct type_info {
    ncclDataType_t type;
    size_t bytes;
    int bit; /* flipped by flip_bit */
    const char *name;
};
const type_info types[] = {
    {ncclInt8, 1, 0, "int8"},     {ncclUint8, 1, 0, "uint8"},   {ncclInt32, 4, 0, "int32"},
    {ncclUint32, 4, 0, "uint32"}, {ncclInt64, 8, 0, "int64"},   {ncclUint64, 8, 0, "uint64"},
    {ncclFloat16, 2, 9, "fp16"},  {ncclFloat32, 4, 22, "fp32"}, {ncclFloat64, 8, 51, "fp64"},
    {ncclBfloat16, 2, 6, "bf16"},
};

const type_info *find_type(ncclDataType_t type)
{
    for (const type_info &t : types)
        if (t.type == type)
            return &t;
    return nullptr;
}

const char *op_name(ncclRedOp_t op)
{
    switch (op) {
    case ncclSum:
        return "sum";
    case ncclMax:
        return "max";
    case ncclMin:
        return "min";
    case ncclAvg:
        return "average";
    default:
        return nullptr;
    }
}

double load(double x)
{
    return x;
}
double load(float x)
{
    return x;
}
double load(__half x)
{
    return __half2float(x);
}
double load(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

void store(double *out, double x)
{
    *out = x;
}
void store(float *out, double x)
{
    *out = (float)x;
}
void store(__half *out, double x)
{
    *out = __double2half(x);
}
void store(__nv_bfloat16 *out, double x)
{
    *out = __double2bfloat16(x);
}

double combine(ncclRedOp_t op, double a, double b)
{
    return op == ncclMax ? std::fmax(a, b) : op == ncclMin ? std::fmin(a, b) : a + b;
}

template <typename T>
void reduce_floats(ncclRedOp_t op, T *out, const std::vector<const void *> &parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double x = load(((const T *)parts[0])[i]);
        for (size_t r = 1; r < parts.size(); r++)
            x = combine(op, x, load(((const T *)parts[r])[i]));
        store(out + i, op == ncclAvg ? x / (double)parts.size() : x);
    }
}

/* Overflowing sums wrap around. */
template <typename T>
void reduce_integers(ncclRedOp_t op, T *out, const std::vector<const void *> &parts, size_t count)
{
    typedef typename std::make_unsigned<T>::type U;
    for (size_t i = 0; i < count; i++) {
        T x = ((const T *)parts[0])[i];
        for (size_t r = 1; r < parts.size(); r++) {
            const T y = ((const T *)parts[r])[i];
            if (op == ncclMax || op == ncclMin)
                x = (op == ncclMax) == (x < y) ? y : x;
            else
                x = (T)(U)((U)x + (U)y);
        }
        out[i] = op == ncclAvg ? (T)(x / (T)parts.size()) : x;
    }
}

} // namespace

size_t type_bytes(ncclDataType_t type)
{
    const type_info *t = find_type(type);
    return t ? t->bytes : 0;
}

bool known_op(ncclRedOp_t op)
{
    return op_name(op) != nullptr;
}

std::string describe(const call &c)
{
    const type_info *t = find_type(c.type);
    std::string what = std::to_string(c.count) + " " + (t ? t->name : "bytes");
    if (c.recv.window >= 0)
        what += " at byte " + std::to_string(c.recv.offset) + " of window " +
                std::to_string(c.recv.window);
    switch (c.kind) {
    case kind::all_reduce:
        return "ncclAllReduce(" + what + ", " + op_name(c.op) + ")";
    case kind::broadcast:
        return "ncclBroadcast(" + what + ", from rank " + std::to_string(c.root) + ")";
    case kind::reduce_scatter:
        return "ncclReduceScatter(" + what + ", " + op_name(c.op) + ")";
    case kind::all_gather:
        return "ncclAllGather(" + what + ")";
    case kind::pairs:
        return what;
    case kind::window:
        return "ncclCommWindowRegister(" + what + ")";
    default:
        return "ncclCommFinalize";
    }
}

void reduce(ncclDataType_t type, ncclRedOp_t op, void *out, const std::vector<const void *> &parts,
            size_t count)
{
    switch (type) {
    case ncclInt8:
        return reduce_integers(op, (int8_t *)out, parts, count);
    case ncclUint8:
        return reduce_integers(op, (uint8_t *)out, parts, count);
    case ncclInt32:
        return reduce_integers(op, (int32_t *)out, parts, count);
    case ncclUint32:
        return reduce_integers(op, (uint32_t *)out, parts, count);
    case ncclInt64:
        return reduce_integers(op, (int64_t *)out, parts, count);
    case ncclUint64:
        return reduce_integers(op, (uint64_t *)out, parts, count);
    case ncclFloat16:
        return reduce_floats(op, (__half *)out, parts, count);
    case ncclFloat32:
        return reduce_floats(op, (float *)out, parts, count);
    case ncclFloat64:
        return reduce_floats(op, (double *)out, parts, count);
    default:
        return reduce_floats(op, (__nv_bfloat16 *)out, parts, count);
    }
}

void flip_bit(ncclDataType_t type, void *element)
{
    const int bit = find_type(type)->bit;
    ((unsigned char *)element)[bit / 8] ^= (unsigned char)(1u << bit % 8);
}

} // namespace nccl
} // namespace hostgpu
