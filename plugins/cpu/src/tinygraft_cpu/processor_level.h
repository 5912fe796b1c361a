/* The kinds of processors that tiles are compiled for, chosen when a routine runs. */

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define SEVERAL_PROCESSORS 1
#endif

#ifdef __clang__
#define SHUFFLED(a, b, type, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLED(a, b, type, ...) __builtin_shuffle(a, b, (type){__VA_ARGS__})
#endif

/* The kind of processor: 2 has vectors of 64 bytes, 1 of 32, 0 what the compiler was told. */
static int level_of_processor(void) {
#ifdef SEVERAL_PROCESSORS
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
    return 0;
}
