/* What stands before each emulated kernel: the words of its language (cuda_words.h, hip_words.h) as C for this
   processor use it. Shared memory is a section of its own, which the scheduler fills with NaN before each block. */
#include "place.h"

static Place *emulated_place;
extern char __start_emulated_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_emulated_shared[] __attribute__((weak, visibility("hidden")));
void emulated_begin(Place *place, char **first, char **last) {
    emulated_place = place;
    *first = __start_emulated_shared;
    *last = __stop_emulated_shared;
}

#define EMULATED_SHARED static __attribute__((section("emulated_shared")))
#define bool _Bool

static inline void emulated_wait_for_block(void) { emulated_place->wait(0); }
static inline void emulated_wait_for_warp(void) { emulated_place->wait(1); }
/* The bits that another thread of the warp has: that of a lane. */
static inline unsigned emulated_exchanged(unsigned bits, unsigned lane) {
    unsigned number = emulated_place->number, warp = emulated_place->warp, first = number / warp * warp;
    emulated_place->lanes[number] = bits;
    emulated_wait_for_warp();
    bits = (unsigned)emulated_place->lanes[first + lane % warp];
    emulated_wait_for_warp();
    return bits;
}
