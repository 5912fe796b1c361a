/* e to the power of matrices, written once for each type: the includer defines NUMBER, NAME(x) and NAME(product).

   The Taylor polynomial of A / 2^s, squared s times. Its degree follows from the norm: of those in `degrees` that which
   takes the fewest products, with a remainder below half a unit in the last place. A polynomial of degree q * r has the
   powers to q, and r - 1 products by Horner's rule in A^q (Paterson and Stockmeyer, "On the number of nonscalar
   multiplications necessary to evaluate polynomials", 1973). Rows for columns is A transposed, and so is its result. */

/* x[i] += factor * y[i] */
FOR_EACH_PROCESSOR
static void NAME(add_times)(NUMBER *restrict x, const NUMBER *restrict y, NUMBER factor, long n) {
    for (long i = 0; i < n; i++) x[i] += factor * y[i];
}

/* The coefficients k to k + count - 1 of the series, times the powers from 0 on: the first of `powers` is A. */
static void NAME(some_terms)(NUMBER *to, const NUMBER *powers, int k, int count, int n) {
    long all = (long)n * n;
    memset(to, 0, (size_t)all * sizeof *to);
    for (int i = 0; i < n; i++) to[(long)i * n + i] = (NUMBER)inverse_factorial(k);
    for (int i = 1; i < count; i++) NAME(add_times)(to, powers + (i - 1) * all, (NUMBER)inverse_factorial(k + i), all);
}

static void NAME(exponential)(uintptr_t function, const NUMBER *a, NUMBER *out, int n) {
    NAME(product) product = (NAME(product))function;
    long all = (long)n * n;
    double norm = 0;
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int j = 0; j < n; j++) sum += fabs((double)a[(long)i * n + j]);
        norm = sum > norm || sum != sum ? sum : norm;
        if (norm != norm) break;
    }
    if (!(norm - norm == 0)) { /* infinite or NaN */
        fill(out, all, sizeof(NUMBER), NAN);
        return;
    }
    const degree *found = 0;
    int halvings = 0;
    for (const degree *tried = degrees; tried->q; tried++) {
        int own = 0;
        for (double rest = norm; rest > tried->most[sizeof(NUMBER) == 8]; rest /= 2) own++;
        if (!found || tried->q + tried->r + own < found->q + found->r + halvings) found = tried, halvings = own;
    }
    size_t bytes = (size_t)(found->q + 1) * all * sizeof(NUMBER);
    NUMBER *powers = tg_workspace(bytes), *last = powers + (found->q - 1) * all, *total = last + all, *next = out;
    NUMBER one = 1, none = 0, scale = (NUMBER)ldexp(1, -halvings);
    for (long i = 0; i < all; i++) powers[i] = a[i] * scale;
    for (int k = 2; k <= found->q; k++) /* even ones as squares: fewer roundings */
        product("N", "N", &n, &n, &n, &one, powers + (k / 2 - 1) * all, &n, powers + (k - k / 2 - 1) * all, &n, &none,
                powers + (k - 1) * all, &n);
    int top = found->q * (found->r - 1);
    /* where the number of products is odd, what comes last is in `out` */
    if ((found->r - 1 + halvings) % 2 == 0) next = total, total = out;
    NAME(some_terms)(total, powers, top, found->q + 1, n);
    for (int k = top - found->q; k >= 0; k -= found->q) {
        NAME(some_terms)(next, powers, k, found->q, n);
        product("N", "N", &n, &n, &n, &one, total, &n, last, &n, &one, next, &n);
        NUMBER *kept = total;
        total = next, next = kept;
    }
    for (int k = 0; k < halvings; k++) {
        product("N", "N", &n, &n, &n, &one, total, &n, total, &n, &none, next, &n);
        NUMBER *kept = total;
        total = next, next = kept;
    }
    tg_leave(powers, bytes);
}
