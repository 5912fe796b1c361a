/* QR of matrices by reflections, written once for each type: the includer defines NUMBER and NAME(x).

   Columns one after another, as BLAS has them. A panel of PANEL columns is factored here, in vectors; what its
   reflections do to the columns behind it, and to those of Q, are products of matrices: with V, which has a reflection
   as a column (1 on the diagonal, 0 above it), they are together I - V T V'. Blocks of columns do not concern each
   other, and threads take them in turn; their width follows from sizes alone, so that results do not depend on threads.
   LAPACK's geqrf and orgqr multiply matrices and vectors in a panel by BLAS, and find each T twice. */

typedef void (*NAME(product))(char *, char *, int *, int *, int *, NUMBER *, NUMBER *, int *, NUMBER *, int *,
                              NUMBER *, NUMBER *, int *);

typedef struct {
    NAME(product) product;
    NUMBER *v, *t, *w; /* V, of which panels lie side by side, T of each panel, and room for 2 * PANEL * columns */
    NUMBER *c;         /* columns that are reflected */
    int m, least;      /* numbers of a column, and how many reflections there are */
    int singly;        /* whether each is made by itself: few of them, for which products copy too much */
    int panel;         /* of which panel `c` takes the reflections */
    int first, end;    /* columns of `c` */
} NAME(reflections);

enum { NAME(LANES) = 64 / sizeof(NUMBER), NAME(SIDE) = 4 /* columns that are reflected side by side */ };
typedef NUMBER NAME(lanes) __attribute__((vector_size(64), aligned(sizeof(NUMBER)), may_alias));

/* Subtract from each of `count` columns, m numbers from each other, tau times v times its product with v. v is 1 at
   first, which is not read. */
FOR_EACH_PROCESSOR
static void NAME(reflect_some)(const NUMBER *restrict v, NUMBER tau, NUMBER *restrict c, long m, long n, int count) {
    long whole = 1 + (n - 1) / NAME(LANES) * NAME(LANES);
    for (int j = 0; j < count; j += NAME(SIDE), c += NAME(SIDE) * m) {
        int side = count - j < NAME(SIDE) ? count - j : NAME(SIDE);
        NAME(lanes) sums[NAME(SIDE)] = {0};
        NUMBER factors[NAME(SIDE)] = {0};
        if (side == NAME(SIDE)) {
            for (long i = 1; i < whole; i += NAME(LANES)) {
                NAME(lanes) here = *(const NAME(lanes) *)(v + i);
                for (int s = 0; s < NAME(SIDE); s++) sums[s] += here * *(const NAME(lanes) *)(c + s * m + i);
            }
        } else {
            for (int s = 0; s < side; s++)
                for (long i = 1; i < whole; i += NAME(LANES))
                    sums[s] += *(const NAME(lanes) *)(v + i) * *(const NAME(lanes) *)(c + s * m + i);
        }
        for (int s = 0; s < side; s++) {
            NUMBER sum = c[s * m];
            for (int lane = 0; lane < NAME(LANES); lane++) sum += sums[s][lane];
            for (long i = whole; i < n; i++) sum += v[i] * c[s * m + i];
            factors[s] = tau * sum;
        }
        for (int s = 0; s < side; s++) {
            NUMBER factor = factors[s], *column = c + s * m;
            column[0] -= factor;
            for (long i = 1; i < n; i++) column[i] -= factor * v[i];
        }
    }
}

/* The length of a column, also of one whose squares are no numbers of its dtype. */
FOR_EACH_PROCESSOR
static double NAME(length)(const NUMBER *x, long n) {
    double sums[16] = {0}, sum = 0, most = 0;
    long whole = n / 16 * 16;
    for (long i = 0; i < whole; i += 16)
        for (int lane = 0; lane < 16; lane++) sums[lane] += (double)x[i + lane] * x[i + lane];
    for (int lane = 0; lane < 16; lane++) sum += sums[lane];
    for (long i = whole; i < n; i++) sum += (double)x[i] * x[i];
    if (sum > 1e-280 && sum < 1e280) return sqrt(sum);
    for (long i = 0; i < n; i++) most = fabs((double)x[i]) > most || x[i] != x[i] ? fabs((double)x[i]) : most;
    if (most == 0 || most - most != 0) return most;
    sum = 0;
    for (long i = 0; i < n; i++) sum += x[i] / most * (x[i] / most);
    return most * sqrt(sum);
}

/* Make of a column the reflection that leaves its first number alone, of which x[0] becomes what is left. Returns tau.
   A column of zeros is not reflected, and neither is one of one number. */
FOR_EACH_PROCESSOR
static NUMBER NAME(reflection)(NUMBER *x, long n) {
    double length = n > 1 ? NAME(length)(x, n) : 0, first = x[0], scale = 1;
    if (length == 0) return 0;
    if (length < 1e-290) { /* left of a column of roundings: where it is no normal number, too few digits are for an angle */
        for (long i = 0; i < n; i++) x[i] = (NUMBER)(x[i] * 0x1p600);
        length = NAME(length)(x, n), first = x[0], scale = 0x1p-600;
    }
    double left = signbit(first) ? length : -length, divisor = first - left, factor = 1 / divisor;
    for (long i = 1; i < n; i++) x[i] = (NUMBER)(x[i] * factor);
    x[0] = (NUMBER)(left * scale);
    return (NUMBER)((left - first) / left);
}

/* T of a panel of `width` reflections, from V'V in `squares`. */
static void NAME(triangle)(const NUMBER *squares, const NUMBER *tau, NUMBER *t, int width) {
    memset(t, 0, (size_t)width * PANEL * sizeof *t);
    for (int k = 0; k < width; k++) {
        NUMBER *column = t + k * PANEL;
        for (int j = 0; j < k; j++)
            for (int i = 0; i <= j; i++) column[i] -= tau[k] * squares[k * PANEL + j] * t[j * PANEL + i];
        column[k] = tau[k];
    }
}

/* Reflect columns by one panel: by all of its reflections, from the first to the last if `forward`. */
static void NAME(reflect_block)(const NAME(reflections) *all, int panel, int first, int end, int forward) {
    int from = panel * PANEL, m = all->m, rows = m - from, size = PANEL, columns = end - first;
    int width = all->least - from < PANEL ? all->least - from : PANEL;
    NUMBER one = 1, minus = -1, none = 0, *v = all->v + (long)from * m + from, *c = all->c + (long)first * m + from;
    NUMBER *w = all->w + 2L * first * PANEL, *w2 = w + (long)columns * PANEL;
    all->product("T", "N", &width, &columns, &rows, &one, v, &m, c, &m, &none, w, &size);
    all->product(forward ? "T" : "N", "N", &width, &columns, &width, &one, all->t + (long)panel * PANEL * PANEL, &size,
                 w, &size, &none, w2, &size);
    all->product("N", "N", &rows, &columns, &width, &minus, v, &m, w2, &size, &one, c, &m);
}

/* The columns behind a panel, in blocks. */
static void NAME(reflect_part)(void *given, int part, int parts) {
    const NAME(reflections) *all = given;
    int step = block_of(all->end - all->first);
    for (int first = all->first + part * step; first < all->end; first += parts * step)
        NAME(reflect_block)(all, all->panel, first, first + step < all->end ? first + step : all->end, 1);
}

/* The columns of Q: those of the identity, reflected from the last panel to the first. The last ones take longest. */
static void NAME(q_part)(void *given, int part, int parts) {
    const NAME(reflections) *all = given;
    int step = block_of(all->end), panels = (all->least + PANEL - 1) / PANEL;
    for (int block = (all->end - 1) / step - part; block >= 0; block -= parts) {
        int first = block * step, end = first + step < all->end ? first + step : all->end;
        NUMBER *c = all->c + (long)first * all->m;
        memset(c, 0, (size_t)(end - first) * all->m * sizeof *c);
        for (int j = first; j < end; j++) all->c[(long)j * all->m + j] = 1;
        for (int k = all->least - 1; all->singly && k >= 0; k--) {
            int begin = first > k ? first : k; /* columns before the first reflected row are still 0 from it on */
            if (begin < end)
                NAME(reflect_some)(all->v + (long)k * all->m + k, all->t[k * PANEL + k],
                                   all->c + (long)begin * all->m + k, all->m, all->m - k, end - begin);
        }
        for (int panel = panels - 1; !all->singly && panel >= 0; panel--)
            if (panel * PANEL < end) NAME(reflect_block)(all, panel, first, end, 0);
    }
}

/* Factor `n` columns of `m` numbers: R and what is above V in `a`, V and T in what `all` has room for. */
static void NAME(factor_columns)(NAME(reflections) *all, NUMBER *a, int n, int parts) {
    int m = all->m;
    NUMBER tau[PANEL], squares[PANEL * PANEL], one = 1, none = 0;
    for (int from = 0; from < all->least; from += PANEL) {
        int width = all->least - from < PANEL ? all->least - from : PANEL, rows = m - from, size = PANEL;
        int reflected = all->singly ? n : width; /* columns, of which those of a panel are reflected one by one */
        NUMBER *v = all->v + (long)from * m + from;
        for (int k = 0; k < width; k++) {
            NUMBER *x = a + (long)(from + k) * m + from + k, *own = v + (long)k * m;
            tau[k] = NAME(reflection)(x, rows - k);
            if (tau[k] != 0) NAME(reflect_some)(x, tau[k], x + m, m, rows - k, reflected - k - 1);
            all->t[(long)(from + k) * PANEL + k] = tau[k];
            memset(own, 0, (size_t)k * sizeof *own);
            own[k] = 1;
            memcpy(own + k + 1, x + 1, (size_t)(rows - k - 1) * sizeof *own);
        }
        if (all->singly) return;
        all->product("T", "N", &width, &width, &rows, &one, v, &m, v, &m, &none, squares, &size);
        NAME(triangle)(squares, tau, all->t + (long)from * PANEL, width);
        all->c = a, all->panel = from / PANEL, all->first = from + width, all->end = n;
        int blocks = all->first < n ? (n - all->first - 1) / block_of(n - all->first) + 1 : 0;
        if (blocks) tg_split(NAME(reflect_part), all, blocks < parts ? blocks : parts);
    }
}

/* Q of `k` columns and R of as many rows, both as rows, of m rows of n numbers; either may be 0. */
static void NAME(q_and_r)(uintptr_t product, const NUMBER *x, NUMBER *q, NUMBER *r, int m, int n, int k, int parts) {
    int least = m < n ? m : n, wide = k > n ? k : n, panels = (least + PANEL - 1) / PANEL;
    size_t of_a = (size_t)m * wide, of_v = (size_t)m * least, of_t = (size_t)panels * PANEL * PANEL;
    size_t bytes = (of_a + of_v + of_t + 2 * (size_t)wide * PANEL) * sizeof(NUMBER);
    NUMBER *a = tg_workspace(bytes);
    NAME(reflections) all = {.product = (NAME(product))product, .v = a + of_a, .m = m, .least = least};
    all.singly = m <= FEW_ROWS || (least <= FEW_ROWS && wide <= PANEL);
    all.t = all.v + of_v, all.w = all.t + of_t;
    transpose(a, x, m, n, n, sizeof(NUMBER));
    NAME(factor_columns)(&all, a, n, parts);
    if (r) {
        transpose(r, a, n, k, m, sizeof(NUMBER));
        for (long i = 1; i < k; i++) memset(r + i * n, 0, (size_t)(i < n ? i : n) * sizeof *r);
    }
    if (q) {
        all.c = a, all.end = k;
        int blocks = (k - 1) / block_of(k) + 1;
        tg_split(NAME(q_part), &all, blocks < parts ? blocks : parts);
        transpose(q, a, k, m, m, sizeof(NUMBER));
    }
    tg_leave(a, bytes);
}
