/* How a convolution's results are divided: bands of rows of some images, of one group each, that threads take in turn. */

#ifndef TINYGRAFT_BANDS_H
#define TINYGRAFT_BANDS_H

#include "routines.h"

enum { LINE = 16, ALIGNED = 64 }; /* floats of a line of the cache; bytes from which vectors are read fastest */

/* Rows of results from `first` to before `end`, of some images from `image` on. */
typedef struct {
    long image, images, group, first, end;
} band;

/* The one of this number, of `bands` of a block of `together` images; `rows` are those of an image. */
static inline band band_of(long number, long batch, long groups, long together, long bands, long rows) {
    long image = number / bands / groups * together, part = number % bands;
    return (band){.image = image,
                  .images = batch - image < together ? batch - image : together,
                  .group = number / bands % groups,
                  .first = tg_begin(rows, (int)part, (int)bands),
                  .end = tg_begin(rows, (int)part + 1, (int)bands)};
}

/* Elements from one line of numbers to the next: whole lines of the cache, an odd number of them, since such a
   distance uses all sets of a cache. */
static inline long distance(long n) { return ((n + LINE - 1) / LINE | 1) * LINE; }

/* The first place in memory, which has room for it, where vectors are read fastest. */
static inline float *aligned_floats(void *memory) {
    return (float *)(((uintptr_t)memory + ALIGNED - 1) & ~(uintptr_t)(ALIGNED - 1));
}

#endif
