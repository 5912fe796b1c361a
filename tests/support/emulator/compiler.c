/* A stand-in for NVRTC and hipRTC: CUDA C and HIP C become code for this processor, by the system's C compiler.

   It takes kernels as this plugin writes them: one in a source, all of whose arguments have 64 bits. kernel.h has the
   words. What is no such text is refused in the compiler's words. Unless an option forbids it, products and sums become one
   operation, as with the real ones. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
enum { FINE = 0, NO_MEMORY = 1, BAD_PROGRAM = 4, BAD_OPTION = 5, FAILED = 6 };
#ifdef EMULATED_HIP
#define ARCH "--offload-arch=gfx"
#define REFUSED "error: invalid target ID in %s"
#define BOUND "amdgpu_flat_work_group_size("
#define SHARED_WORD "__attribute__((shared))"
#define SHARED_MEANS "EMULATED_SHARED"
#define WORDS HERE "/hip_words.h"
#define UNFUSED "-ffp-contract=off"
enum { MAJOR = 6, MINOR = 4 };
static const char *const archs[] = {"90a", "942", "950", "1030", "1100", "1101", "1200", "1201"};
static const char *const options_known[] = {"-O3", "-std=c++17", UNFUSED, "-fno-fast-math", "-w",
                                            "-fno-gpu-flush-denormals-to-zero"};
static int has_barrier(const char *text) { return strstr(text, "s_barrier") || strstr(text, "wave_barrier"); }
#else
#define ARCH "--gpu-architecture=sm_"
#define REFUSED "nvrtc: error: invalid value for %s"
#define BOUND "__launch_bounds__("
#define SHARED_WORD "extern __shared__ __align__(16) unsigned char shared_bytes[];"
#define SHARED_MEANS "unsigned char *const shared_bytes = emulated_place->shared;"
#define WORDS HERE "/cuda_words.h"
#define UNFUSED "-fmad=false"
enum { MAJOR = 13, MINOR = 0 };
static const int archs[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
static const char *const options_known[] = {UNFUSED, "-prec-div=true", "-prec-sqrt=true", "-ftz=false", "-std=c++17",
                                            "-default-device", "-w"};
static int has_barrier(const char *text) { return strstr(text, "__sync") || strstr(text, "__shfl"); }
#endif

typedef struct {
    char *text, *log, *code;
    size_t size;
} Program;

int nvrtcVersion(int *major, int *minor) {
    *major = MAJOR;
    *minor = MINOR;
    return FINE;
}
const char *nvrtcGetErrorString(int result) {
    return result == FAILED ? "NVRTC_ERROR_COMPILATION" : result == BAD_OPTION ? "NVRTC_ERROR_INVALID_OPTION" : "NVRTC_ERROR";
}
#ifdef EMULATED_HIP
static int is_arch(const char *text) {
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (!strcmp(text, archs[i])) return 1;
    return 0;
}
#else
static int is_arch(const char *text) {
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (atoi(text) == archs[i]) return 1;
    return 0;
}
int nvrtcGetNumSupportedArchs(int *count) {
    *count = sizeof archs / sizeof *archs;
    return FINE;
}
int nvrtcGetSupportedArchs(int *found) {
    memcpy(found, archs, sizeof archs);
    return FINE;
}
#endif
int nvrtcCreateProgram(Program **program, const char *text, const char *name, int count, const char *const *headers,
                       const char *const *names) {
    (void)name, (void)count, (void)headers, (void)names;
    *program = calloc(1, sizeof **program);
    (*program)->text = strdup(text);
    return FINE;
}
int nvrtcDestroyProgram(Program **program) {
    free((*program)->text);
    free((*program)->log);
    free((*program)->code);
    free(*program);
    *program = NULL;
    return FINE;
}

static int fail(Program *program, int result, const char *why) {
    free(program->log);
    program->log = strdup(why);
    return result;
}
static int check_option(Program *program, const char *option) {
    char said[256];
    if (!strncmp(option, "-I", 2)) return FINE;
    for (size_t i = 0; i < sizeof options_known / sizeof *options_known; i++)
        if (!strcmp(option, options_known[i])) return FINE;
    if (!strncmp(option, ARCH, strlen(ARCH)) && is_arch(option + strlen(ARCH))) return FINE;
    snprintf(said, sizeof said, REFUSED, option);
    return fail(program, BAD_OPTION, said);
}

/* The text with every `old` replaced. */
static char *replaced(const char *text, const char *old, const char *new) {
    size_t count = 0;
    for (const char *p = text; (p = strstr(p, old)); p += strlen(old)) count++;
    char *made = malloc(strlen(text) + count * strlen(new) + 1), *to = made;
    for (const char *p; (p = strstr(text, old)); text = p + strlen(old)) {
        to = mempcpy(to, text, p - text);
        to = stpcpy(to, new);
    }
    strcpy(to, text);
    return made;
}
/* What the driver has to know of the kernel: its arguments, whether its threads wait, how many there may be. */
static int facts(const char *text, char *said, size_t size) {
    const char *bound = strstr(text, BOUND), *name = bound ? strstr(bound, ") ") : NULL;
    const char *open = name ? strchr(name + 2, '(') : NULL, *close = open ? strchr(open, ')') : NULL;
    if (!close) return 0;
    int count = close > open + 1;
    for (const char *p = open; p < close; p++) count += *p == ',';
    snprintf(said, size, "\nconst int emulated_facts_%.*s[] = {%d, %d, %d};\n", (int)(open - name - 2), name + 2, count,
             has_barrier(text), atoi(bound + strlen(BOUND)));
    return 1;
}
static char *read_all(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *size = ftell(file);
    rewind(file);
    char *data = calloc(1, *size + 1);
    *size = fread(data, 1, *size, file);
    fclose(file);
    return data;
}
static int run(char *const *command, const char *log) {
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, log, 0x241, 0600); /* write, create, truncate */
    if (!posix_spawnp(&child, command[0], &actions, NULL, command, environ)) waitpid(child, &status, 0);
    posix_spawn_file_actions_destroy(&actions);
    return status;
}
/* Keep the text in the folder EMULATED_SAVE, for tests that give it to the real NVRTC. */
static void save(const char *text) {
    const char *folder = getenv("EMULATED_SAVE");
    unsigned long long hash = 14695981039346656037ull;
    char path[512];
    if (!folder || !*folder) return;
    for (const char *p = text; *p; p++) hash = (hash ^ (unsigned char)*p) * 1099511628211ull;
    snprintf(path, sizeof path, "%s/%016llx.cu", folder, hash);
    FILE *file = fopen(path, "w");
    if (!file) return;
    fputs(text, file);
    fclose(file);
}
/* The processor's option for a fused multiply-add, where it needs one. */
static char *fused_option(void) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("fma")) return "-mfma";
#endif
    return "-w";
}
int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
    char folder[] = "/tmp/emulated-XXXXXX", source[64], code[64], log[64], said[600];
    int result, fuses = 1;
    for (int i = 0; i < count; i++) {
        if ((result = check_option(program, options[i]))) return result;
        if (!strcmp(options[i], UNFUSED)) fuses = 0;
    }
    save(program->text);
    if (!facts(program->text, said, sizeof said)) return fail(program, FAILED, "error: there is no kernel in this source");
    if (!mkdtemp(folder)) return fail(program, FAILED, "error: no folder for files");
    char *plain = replaced(program->text, "extern \"C\" ", "");
    char *text = replaced(plain, SHARED_WORD, SHARED_MEANS);
    snprintf(source, sizeof source, "%s/kernel.c", folder);
    snprintf(code, sizeof code, "%s/kernel.so", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    FILE *file = fopen(source, "w");
    fprintf(file, "%s%s", text, said);
    fclose(file);
    free(plain);
    free(text);
    const char *cc = getenv("CC");
    char *command[] = {(char *)(cc && *cc ? cc : "cc"), "-std=gnu11", fuses ? "-O2" : "-O1", "-w", "-fPIC", "-shared",
                       fuses ? "-ffp-contract=fast" : "-ffp-contract=off", fuses ? fused_option() : "-w", "-fno-math-errno",
                       "-include", HERE "/kernel.h", "-include", WORDS, "-o", code, source, "-lm", NULL};
    result = run(command, log) ? FAILED : FINE;
    program->log = read_all(log, &program->size);
    if (!result) program->code = read_all(code, &program->size);
    unlink(source), unlink(code), unlink(log), rmdir(folder);
    return result || !program->code ? FAILED : FINE;
}
int nvrtcGetProgramLogSize(Program *program, size_t *size) {
    *size = program->log ? strlen(program->log) + 1 : 1;
    return FINE;
}
int nvrtcGetProgramLog(Program *program, char *log) {
    strcpy(log, program->log ? program->log : "");
    return FINE;
}
int nvrtcGetCUBINSize(Program *program, size_t *size) {
    *size = program->size;
    return FINE;
}
int nvrtcGetCUBIN(Program *program, char *code) {
    memcpy(code, program->code, program->size);
    return FINE;
}
