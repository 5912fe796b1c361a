/* What depthwise convolutions are to depthwise.c: the description of one, shared with transposed.c. */

#ifndef TINYGRAFT_DEPTHWISE_H
#define TINYGRAFT_DEPTHWISE_H

#include "epilogue.h"

/* An axis: of the window, of x and of results; steps of a window over x; and results between two that read the same
   elements of the window, 1 where nothing slides back. `cut` is how many elements of zeros are before x or, of what slides
   back, how many sums are cut off before the first result. */
typedef struct {
    long window, size, results, step, phases, cut;
} tg_axis;

/* Each of `channels` planes of `batch` images with a window of its own: x (batch, channels, height, width), weights
   (channel, window), results y. `back`: whether products slide back, so that there is none with what is outside of x.
   `after` is what is done with results, before they leave the first cache. */
typedef struct {
    const float *x, *w;
    float *y;
    long batch, channels, threads;
    tg_axis down, right;
    int back, level; /* the kind of processor at most */
    epilogue after;
} tg_depthwise;

void tg_depthwise_planes(const tg_depthwise *given, long examples);
void tg_depthwise_weights(const tg_depthwise *given, long below, long beside, long examples); /* w: gradients of results */

#endif
