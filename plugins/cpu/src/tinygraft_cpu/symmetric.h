/* Eigenvalues and eigenvectors of symmetric matrices, written once for each type, after householder.h.

   Reflections from both sides make three diagonals of a matrix (Householder, 1958): A = Q T Q'. Each step subtracts
   v w' + w v' from the rows and columns that are left, and multiplies them with the next v: one pass over them does
   both, on whole rows, so that an element is loaded once for six operations. LAPACK's sytrd has half of the elements, but
   goes through them twice by BLAS, and takes three to five times as long where they are in the second cache. T is
   LAPACK's: its values by sterf, its vectors too by stedc, on each half of T by a thread of its own, which laed1 joins
   (Cuppen, 1981), as stedc would; their columns Q reflects by panels, as in qr. */

typedef void (*NAME(sterf))(int *, NUMBER *, NUMBER *, int *);
typedef void (*NAME(stedc))(char *, int *, NUMBER *, NUMBER *, NUMBER *, int *, NUMBER *, int *, int *, int *, int *);
typedef void (*NAME(laed1))(int *, NUMBER *, NUMBER *, int *, int *, NUMBER *, int *, NUMBER *, int *, int *);

/* rows of a pass; rows from which T is halved, as stedc halves it */
enum { NAME(TOGETHER) = 4, NAME(HALVED) = 26 };

/* Subtract v w' + w v' from `rows` rows of a, from columns `first` to `end`, of which `of` names the rows' own numbers
   in v and w. Stores their products with `next`. */
FOR_EACH_PROCESSOR
static void NAME(update_rows)(NUMBER *restrict a, long step, int rows, const NUMBER *restrict v,
                              const NUMBER *restrict w, const NUMBER *restrict next, long of, long first, long end,
                              NUMBER *restrict products) {
    for (int from = 0; from < rows; from += NAME(TOGETHER), a += NAME(TOGETHER) * step) {
        int side = rows - from < NAME(TOGETHER) ? rows - from : NAME(TOGETHER);
        NAME(lanes) sums[NAME(TOGETHER)] = {0};
        NUMBER own_v[NAME(TOGETHER)] = {0}, own_w[NAME(TOGETHER)] = {0};
        for (int r = 0; r < side; r++) own_v[r] = v[of + from + r], own_w[r] = w[of + from + r];
        if (side == NAME(TOGETHER)) {
            for (long c = first; c < end; c += NAME(LANES)) {
                NAME(lanes) of_v = *(const NAME(lanes) *)(v + c), of_w = *(const NAME(lanes) *)(w + c);
                NAME(lanes) ahead = *(const NAME(lanes) *)(next + c);
                for (int r = 0; r < NAME(TOGETHER); r++) {
                    NAME(lanes) *to = (NAME(lanes) *)(a + r * step + c);
                    NAME(lanes) here = *to - (own_v[r] * of_w + own_w[r] * of_v);
                    *to = here;
                    sums[r] += here * ahead;
                }
            }
        } else {
            for (int r = 0; r < side; r++)
                for (long c = first; c < end; c += NAME(LANES)) {
                    NAME(lanes) *to = (NAME(lanes) *)(a + r * step + c);
                    NAME(lanes) here = *to - (own_v[r] * *(const NAME(lanes) *)(w + c)
                                              + own_w[r] * *(const NAME(lanes) *)(v + c));
                    *to = here;
                    sums[r] += here * *(const NAME(lanes) *)(next + c);
                }
        }
        for (int r = 0; r < side; r++) {
            NUMBER sum = 0;
            for (int lane = 0; lane < NAME(LANES); lane++) sum += sums[r][lane];
            products[from + r] = sum;
        }
    }
}

/* The three diagonals of a symmetric matrix, of which both triangles are there, in rows `step` apart that are whole
   vectors: d of n numbers, e of n - 1. Reflection k is in column k of `q`, n - 1 numbers from row 1 on with a 1 in
   front, its factor in tau[k]. `lines` has room for 4 rows, which are 0. */
static void NAME(tridiagonal)(NUMBER *a, long step, int n, NUMBER *d, NUMBER *e, NUMBER *q, NUMBER *tau, NUMBER *lines) {
    NUMBER *v = lines, *w = v + step, *next = w + step, *products = next + step;
    for (int k = 0; k < n; k++) {
        NUMBER *row = a + k * step;
        int left = n - k - 1; /* numbers of the row behind the diagonal */
        for (int c = k; k && c < n; c++) row[c] -= v[k] * w[c] + w[k] * v[c]; /* of a row, before those behind it */
        d[k] = row[k];
        if (left) e[k] = row[k + 1];
        if (left < 2) continue;
        v[k] = w[k] = 0; /* columns before those that are left stay */
        memset(next, 0, (size_t)(k + 1) * sizeof *next);
        memcpy(next + k + 1, row + k + 1, (size_t)left * sizeof *next);
        tau[k] = NAME(reflection)(next + k + 1, left);
        e[k] = next[k + 1];
        next[k + 1] = 1;
        NUMBER *own = q + (long)k * (n - 1);
        memset(own, 0, (size_t)k * sizeof *own);
        memcpy(own + k, next + k + 1, (size_t)left * sizeof *own);
        long first = (k + 1) / NAME(LANES) * NAME(LANES);
        NAME(update_rows)(row + step, step, left, v, w, next, k + 1, first, step, products);
        NUMBER sum = 0;
        for (int i = 0; i < left; i++) sum += products[i] * next[k + 1 + i];
        NUMBER half = tau[k] * tau[k] * sum / 2;
        for (int i = 0; i < left; i++) w[k + 1 + i] = tau[k] * products[i] - half * next[k + 1 + i];
        NUMBER *kept = v;
        v = next, next = kept;
    }
}

/* T, its eigenvectors, columns of z, and in which order (from 1) their values in d rise; what LAPACK works in. */
typedef struct {
    const uintptr_t *functions;
    NUMBER *d, *e, *z, *work;
    int *order, *integers;
    int n, half, info[2];
} NAME(diagonals);

/* Eigenvectors of the halves of T that are this thread's. */
static void NAME(halves)(void *given, int part, int parts) {
    NAME(diagonals) *t = given;
    for (int side = part; side < 2; side += parts) {
        int first = side ? t->half : 0, n = side ? t->n - t->half : t->half, room = 1 + 4 * n + n * n, whole = 3 + 5 * n;
        NUMBER *work = t->work + side * (1 + 4 * t->half + t->half * t->half);
        int *integers = t->integers + side * (3 + 5 * t->half);
        ((NAME(stedc))t->functions[1])("I", &n, t->d + first, t->e + first, t->z + (long)first * (t->n + 1), &t->n, work,
                                       &room, integers, &whole, &t->info[side]);
    }
}

/* Eigenvalues and eigenvectors of T. Returns LAPACK's info. */
static int NAME(of_diagonals)(NAME(diagonals) *t, int parts) {
    int n = t->n, room = 1 + 4 * n + n * n, whole = 3 + 5 * n, info = 0, exponent;
    double most = 0;
    for (int i = 0; i < n; i++) {
        double both = fmax(fabs((double)t->d[i]), i + 1 < n ? fabs((double)t->e[i]) : 0);
        if (both > most) most = both;
        t->order[i] = i + 1;
    }
    if (n < NAME(HALVED) || most == 0) {
        ((NAME(stedc))t->functions[1])("I", &n, t->d, t->e, t->z, &n, t->work, &room, t->integers, &whole, &info);
        return info;
    }
    frexp(most, &exponent); /* laed1 leaves out what is below a rounding of 1 */
    for (int i = 0; i < n; i++) t->d[i] = (NUMBER)ldexp(t->d[i], -exponent);
    for (int i = 0; i < n - 1; i++) t->e[i] = (NUMBER)ldexp(t->e[i], -exponent);
    t->half = n / 2, t->info[0] = t->info[1] = 0;
    NUMBER apart = t->e[t->half - 1], least = apart < 0 ? -apart : apart;
    t->d[t->half - 1] -= least, t->d[t->half] -= least;
    memset(t->z, 0, (size_t)n * n * sizeof(NUMBER));
    tg_split(NAME(halves), t, parts < 2 ? 1 : 2);
    if (t->info[0] || t->info[1]) return t->info[0] | t->info[1];
    for (int i = t->half; i < n; i++) t->order[i] = i + 1 - t->half;
    ((NAME(laed1))t->functions[3])(&n, t->d, t->z, &n, t->order, &apart, &t->half, t->work, t->integers, &info);
    for (int i = 0; i < n; i++) t->d[i] = (NUMBER)ldexp(t->d[i], exponent);
    for (int i = 1; i < n; i++) /* values that are equal but for roundings come in any order from laed1 */
        for (int k = i; k && t->d[t->order[k] - 1] < t->d[t->order[k - 1] - 1]; k--) {
            int kept = t->order[k];
            t->order[k] = t->order[k - 1], t->order[k - 1] = kept;
        }
    return info;
}

/* Columns of Q times those of T's eigenvectors, in blocks. */
static void NAME(back_part)(void *given, int part, int parts) {
    const NAME(reflections) *all = given;
    int step = block_of(all->end), panels = (all->least + PANEL - 1) / PANEL;
    for (int first = part * step; first < all->end; first += parts * step)
        for (int panel = panels - 1; panel >= 0; panel--)
            NAME(reflect_block)(all, panel, first, first + step < all->end ? first + step : all->end, 0);
}

/* Values of n numbers and `vectors`, rows of n with an eigenvector in each column, of a matrix whose upper triangle is
   read if `upper`. Values come from stedc if `with_vectors`, also where no vectors are stored. Returns LAPACK's info. */
static int NAME(eigen)(const uintptr_t *functions, const NUMBER *x, NUMBER *values, NUMBER *vectors, int n, int upper,
                       int with_vectors, int parts) {
    int m = n - 1, least = n - 2, panels = (least + PANEL - 1) / PANEL, info = 0, size = PANEL;
    int room = 1 + 4 * n + n * n, whole = 6 + 6 * n;
    long step = (n + NAME(LANES) - 1) / NAME(LANES) * NAME(LANES);
    size_t of_z = with_vectors ? (size_t)n * n : 0, of_work = with_vectors ? (size_t)room + 2 * (size_t)n * PANEL : 0;
    size_t of_t = (size_t)panels * PANEL * PANEL, count = (size_t)n * step + 7 * step + (size_t)m * least + of_t;
    size_t bytes = (count + 2 * of_z + of_work) * sizeof(NUMBER) + (size_t)whole * sizeof(int);
    NUMBER *a = tg_workspace(bytes), *lines = a + n * step, *d = lines + 4 * step, *e = d + step, *tau = e + step;
    NUMBER *q = tau + step, *t = q + (size_t)m * least, *z = t + of_t, *c = z + of_z, *work = c + of_z;
    int *integers = (int *)(a + count + 2 * of_z + of_work);
    double most = 0, scale = 1, other = 1; /* one power of two may be no number */
    for (long i = 0; i < n; i++) {
        for (long j = upper ? i : 0; j < (upper ? n : i + 1); j++) {
            NUMBER own = x[i * n + j];
            if (fabs((double)own) > most) most = fabs((double)own);
            a[i * step + j] = a[j * step + i] = own;
        }
        memset(a + i * step + n, 0, (size_t)(step - n) * sizeof *a);
    }
    if (most > 0 && (most > LARGE || most < 1 / LARGE)) { /* so that squares and products stay numbers */
        int exponent;
        frexp(most, &exponent);
        scale = ldexp(1, -(exponent / 2)), other = ldexp(1, exponent / 2 - exponent);
        for (long i = 0; i < n * step; i++) a[i] = (NUMBER)(a[i] * scale * other);
    }
    memset(lines, 0, 4 * (size_t)step * sizeof *lines);
    NAME(tridiagonal)(a, step, n, d, e, q, tau, lines);
    int *order = integers + 6 + 5 * n;
    if (with_vectors) {
        NAME(diagonals) three = {functions, d, e, z, work, order, integers, .n = n};
        info = NAME(of_diagonals)(&three, parts);
    } else ((NAME(sterf))functions[1])(&n, d, e, &info);
    for (int i = 0; i < n; i++) values[i] = (NUMBER)(d[with_vectors ? order[i] - 1 : i] / scale / other);
    if (vectors && !info) {
        NUMBER squares[PANEL * PANEL], one = 1, none = 0;
        NAME(reflections) all = {.product = (NAME(product))functions[2], .v = q, .t = t, .w = work, .c = c, .m = m,
                                 .least = least, .end = n};
        for (int from = 0; from < least; from += PANEL) {
            int width = least - from < PANEL ? least - from : PANEL, rows = m - from;
            NUMBER *v = q + (long)from * m + from;
            all.product("T", "N", &width, &width, &rows, &one, v, &m, v, &m, &none, squares, &size);
            NAME(triangle)(squares, tau + from, t + (long)from * PANEL, width);
        }
        for (long j = 0; j < n; j++) { /* row 0, which Q leaves alone, is put where it belongs */
            const NUMBER *column = z + (order[j] - 1) * (long)n;
            vectors[j] = column[0];
            memcpy(c + j * m, column + 1, (size_t)m * sizeof *c);
        }
        int blocks = (n - 1) / block_of(n) + 1;
        tg_split(NAME(back_part), &all, blocks < parts ? blocks : parts);
        transpose(vectors + n, c, n, m, m, sizeof(NUMBER));
    }
    tg_leave(a, bytes);
    return info;
}
