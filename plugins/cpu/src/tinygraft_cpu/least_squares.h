/* Least squares, written once for each type: the includer defines NUMBER and NAME(x), after householder.h.

   A matrix whose singular values certainly all count is solved by its QR decomposition; of a wide one that of the
   transposed matrix, for the smallest solution. What decides is a bound of its condition, from R and its inverse. Others
   are left to LAPACK's gelsd, which finds singular values and takes many times as long. */

typedef void (*NAME(trtri))(char *, char *, int *, NUMBER *, int *, int *);
typedef void (*NAME(trsm))(char *, char *, char *, char *, int *, int *, NUMBER *, NUMBER *, int *, NUMBER *, int *);
typedef void (*NAME(gelsd))(int *, int *, int *, NUMBER *, int *, NUMBER *, int *, NUMBER *, NUMBER *, int *, NUMBER *,
                            int *, int *, int *);

/* The root of the sum of the squares of an upper triangle of columns that begin `step` numbers after each other. */
static double NAME(whole_length)(const NUMBER *x, int n, long step) {
    double sum = 0;
    for (int j = 0; j < n; j++) {
        double own = NAME(length)(x + j * step, j + 1);
        sum += own * own;
    }
    return sqrt(sum);
}

/* More than the greatest singular value of such a triangle R: `margin` times what some steps with R'R find. Its square is
   found to 0.871 ln n / (rounds - 1) from a random vector (Kuczynski and Wozniakowski, 1992): 14 % in 40 rounds for 512. */
FOR_EACH_PROCESSOR
static double NAME(most_of)(const NUMBER *x, int n, long step, NUMBER *restrict line, NUMBER *restrict image, int rounds,
                            double margin) {
    double found = 0, longest = NAME(whole_length)(x, n, step);
    for (int i = 0; i < n; i++) line[i] = (NUMBER)(i * 37 % 64 + 1);
    for (int round = 0; round < rounds; round++) {
        NUMBER scale = (NUMBER)(1 / NAME(length)(line, n));
        memset(image, 0, (size_t)n * sizeof *image);
        for (int j = 0; j < n; j++) {
            const NUMBER *column = x + j * step;
            NUMBER factor = line[j] * scale;
            for (int i = 0; i <= j; i++) image[i] += column[i] * factor;
        }
        found = NAME(length)(image, n);
        for (int j = 0; j < n; j++) {
            const NUMBER *column = x + j * step;
            NAME(lanes) sums = {0};
            NUMBER sum = 0;
            int whole = (j + 1) / NAME(LANES) * NAME(LANES);
            for (int i = 0; i < whole; i += NAME(LANES))
                sums += *(const NAME(lanes) *)(column + i) * *(const NAME(lanes) *)(image + i);
            for (int lane = 0; lane < NAME(LANES); lane++) sum += sums[lane];
            for (int i = whole; i <= j; i++) sum += column[i] * image[i];
            line[j] = sum;
        }
    }
    return margin * found < longest ? margin * found : longest;
}

/* The columns of Q times `k` columns from `c` on, in place. */
static void NAME(times_q)(NAME(reflections) *all, NUMBER *c, int k) {
    all->c = c;
    if (all->singly)
        for (int i = all->least - 1; i >= 0; i--)
            NAME(reflect_some)(all->v + (long)i * all->m + i, all->t[i * PANEL + i], c + i, all->m, all->m - i, k);
    else
        for (int panel = (all->least - 1) / PANEL; panel >= 0; panel--) NAME(reflect_block)(all, panel, 0, k, 0);
}

/* The solution, n rows of k, of a matrix of m rows of n. Returns 0 where a singular value may not count. */
static int NAME(by_reflections)(const uintptr_t *functions, const NUMBER *x, const NUMBER *b, NUMBER *to, int m, int n,
                                int k, double rcond, int parts) {
    int tall = m >= n, length = tall ? m : n, least = tall ? n : m, wide = least + k, info = 0;
    size_t of_columns = (size_t)length * wide, of_v = (size_t)length * least, of_r = (size_t)least * least;
    size_t of_t = (size_t)((least + PANEL - 1) / PANEL) * PANEL * PANEL, of_w = 2 * (size_t)wide * PANEL;
    size_t bytes = (of_columns + of_v + of_t + of_w + of_r + 2 * (size_t)least) * sizeof(NUMBER);
    NUMBER *a = tg_workspace(bytes), *c = a + of_v, *inverse, one = 1;
    NAME(reflections) all = {.product = (NAME(product))functions[0], .v = a + of_columns, .m = length, .least = least};
    all.t = all.v + of_v, all.w = all.t + of_t, inverse = all.w + of_w;
    all.singly = length <= FEW_ROWS || (least <= FEW_ROWS && wide <= PANEL);
    if (tall) {
        transpose(a, x, m, n, n, sizeof(NUMBER));
        transpose(c, b, m, k, k, sizeof(NUMBER));
    } else {
        memcpy(a, x, of_v * sizeof(NUMBER));
        memset(c, 0, (size_t)length * k * sizeof(NUMBER));
        for (int i = 0; i < m; i++)
            for (int j = 0; j < k; j++) c[(long)j * length + i] = b[(long)i * k + j];
    }
    NAME(factor_columns)(&all, a, tall ? wide : least, parts); /* of a tall one B becomes Q'B */
    for (int j = 0; j < least; j++) memcpy(inverse + (long)j * least, a + (long)j * length, (j + 1) * sizeof(NUMBER));
    ((NAME(trtri))functions[1])("U", "N", &least, inverse, &least, &info);
    NUMBER *line = inverse + of_r, *image = line + least;
    double most = NAME(most_of)(a, least, length, line, image, 5, 2), share = rcond > 0 ? rcond : 0;
    double back = info ? INFINITY : NAME(whole_length)(inverse, least, least);
    int certain = most * back * share < 0.5;
    if (!certain && !info && most * back * share < LOOSE) { /* both more exactly, in a tenth of the time of gelsd */
        most = NAME(most_of)(a, least, length, line, image, 40, CLOSE);
        back = NAME(most_of)(inverse, least, least, line, image, 40, CLOSE);
        certain = most * back * share < 1;
    }
    if (certain) {
        ((NAME(trsm))functions[2])("L", "U", tall ? "N" : "T", "N", &least, &k, &one, a, &length, c, &length);
        if (!tall) NAME(times_q)(&all, c, k);
        transpose(to, c, k, n, length, sizeof(NUMBER));
    }
    tg_leave(a, bytes);
    return certain;
}

/* The same of any matrix, by singular values. Returns how many count, -1 where LAPACK finds none. */
static int NAME(by_values)(uintptr_t function, const NUMBER *x, const NUMBER *b, NUMBER *to, int m, int n, int k,
                           double rcond) {
    int length = m > n ? m : n, rank = 0, info = 0, room = -1, whole = 0;
    NUMBER wanted = 0, none = 0, bound = (NUMBER)(rcond > 0 ? rcond : 0);
    NAME(gelsd) solve = (NAME(gelsd))function;
    solve(&m, &n, &k, &none, &m, &none, &length, &none, &bound, &rank, &wanted, &room, &whole, &info);
    room = (int)(wanted * 1.01) + 1;
    size_t of_a = (size_t)m * n, of_b = (size_t)length * k;
    size_t bytes = (of_a + of_b + length + room) * sizeof(NUMBER) + (size_t)(whole + 1) * sizeof(int);
    NUMBER *a = tg_workspace(bytes), *c = a + of_a, *values = c + of_b, *work = values + length;
    transpose(a, x, m, n, n, sizeof(NUMBER));
    for (int i = 0; i < m; i++)
        for (int j = 0; j < k; j++) c[(long)j * length + i] = b[(long)i * k + j];
    for (int j = 0; j < k; j++) /* LAPACK would scale all columns by an infinite one */
        if (!is_finite(c + (long)j * length, m, sizeof(NUMBER)))
            memset(c + (long)j * length, 0, (size_t)length * sizeof(NUMBER));
    solve(&m, &n, &k, a, &m, c, &length, values, &bound, &rank, work, &room, (int *)(work + room), &info);
    transpose(to, c, k, n, length, sizeof(NUMBER));
    for (long i = 0; i < (long)m * k; i++)
        for (long j = i % k; b[i] - b[i] != 0 && j < (long)n * k; j += k) to[j] = NAN;
    tg_leave(a, bytes);
    return info ? -1 : rank;
}

static int NAME(least_squares)(const uintptr_t *functions, const NUMBER *x, const NUMBER *b, NUMBER *to, int m, int n,
                               int k, double rcond, int parts) {
    if (is_finite(x, (long)m * n, sizeof(NUMBER))) {
        if (NAME(by_reflections)(functions, x, b, to, m, n, k, rcond, parts)) return m < n ? m : n;
        int rank = NAME(by_values)(functions[3], x, b, to, m, n, k, rcond);
        if (rank >= 0) return rank;
    }
    fill(to, (long)n * k, sizeof(NUMBER), NAN);
    return 0;
}
