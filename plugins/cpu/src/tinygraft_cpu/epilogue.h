/* What a routine does with its results before they are stored, step by step: core's uop/epilogues.py says what each means.

   Steps come behind the facts of a routine, as pairs of a code and the bits of a number, and their operands behind its
   own. No step is contracted with the next one: results have the bits of two kernels. */

#ifndef TINYGRAFT_EPILOGUE_H
#define TINYGRAFT_EPILOGUE_H

#include <string.h>

enum { MOST_STEPS = 16 };
enum { BY_ADD, BY_SUB, BY_MUL, BY_MAX };
enum { A_NUMBER, OF_CHANNEL, OF_ELEMENT };

typedef struct {
    int op, kind;
    float number;
    const float *operand;
} epilogue_step;

typedef struct {
    long count;
    epilogue_step steps[MOST_STEPS];
} epilogue;

/* Read `count` steps. */
static inline epilogue epilogue_of(const long long *facts, long count, void **operands) {
    epilogue found = {.count = count};
    for (long k = 0; k < count; k++) {
        epilogue_step *step = found.steps + k;
        unsigned bits = (unsigned)facts[2 * k + 1];
        step->op = (int)facts[2 * k] / 3, step->kind = (int)facts[2 * k] % 3;
        memcpy(&step->number, &bits, sizeof bits);
        if (step->kind != A_NUMBER) step->operand = *operands++;
    }
    return found;
}

/* Go on to the next example, of so many channels and results. */
static inline void epilogue_next(epilogue *all, long channels, long results) {
    for (long k = 0; k < all->count; k++)
        if (all->steps[k].kind != A_NUMBER) all->steps[k].operand += all->steps[k].kind == OF_CHANNEL ? channels : results;
}

/* What becomes of one result. */
static inline float epilogue_one(const epilogue *all, float x, long channel, long place) {
    for (long k = 0; k < all->count; k++) {
        const epilogue_step *s = all->steps + k;
        float y = s->kind == A_NUMBER ? s->number : s->operand[s->kind == OF_CHANNEL ? channel : place];
        switch (s->op) {
        case BY_ADD: x = x + y; break;
        case BY_SUB: x = x - y; break;
        case BY_MUL: x = x * y; break;
        default: x = y > x || y != y ? y : x;
        }
    }
    return x;
}

#endif
