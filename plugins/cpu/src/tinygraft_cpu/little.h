/* LU decomposition of little matrices, written once for each type: the includer defines NUMBER and NAME(x).

   Rows one after another, partial pivoting as LAPACK's getrf: the first of the greatest elements of a column. A call of
   LAPACK takes longer than the arithmetic of a matrix of LITTLE rows. A pivot that is 0 divides nothing, and what is
   solved with it is inf or NaN, as there. */

/* Factor `m` rows of `n` in place; row i was swapped with row pivots[i], counted from 0. */
static void NAME(factor)(NUMBER *a, int m, int n, int *pivots) {
    int least = m < n ? m : n;
    for (int k = 0; k < least; k++) {
        int best = k;
        NUMBER most = a[k * n + k] < 0 ? -a[k * n + k] : a[k * n + k];
        for (int i = k + 1; i < m; i++) {
            NUMBER size = a[i * n + k] < 0 ? -a[i * n + k] : a[i * n + k];
            if (size > most) best = i, most = size;
        }
        pivots[k] = best;
        for (int j = 0; best != k && j < n; j++) {
            NUMBER kept = a[k * n + j];
            a[k * n + j] = a[best * n + j];
            a[best * n + j] = kept;
        }
        if (a[k * n + k] == 0) continue;
        for (int i = k + 1; i < m; i++) {
            NUMBER factor = a[i * n + k] /= a[k * n + k];
            for (int j = k + 1; j < n; j++) a[i * n + j] -= factor * a[k * n + j];
        }
    }
}

/* Solve for `k` sides in place, rows of `k` numbers, with the factors of `m` rows. */
static void NAME(solve)(const NUMBER *a, int m, const int *pivots, NUMBER *b, int k) {
    for (int i = 0; i < m; i++)
        for (int j = 0; pivots[i] != i && j < k; j++) {
            NUMBER kept = b[i * k + j];
            b[i * k + j] = b[pivots[i] * k + j];
            b[pivots[i] * k + j] = kept;
        }
    for (int i = 1; i < m; i++)
        for (int r = 0; r < i; r++)
            for (int j = 0; j < k; j++) b[i * k + j] -= a[i * m + r] * b[r * k + j];
    for (int i = m - 1; i >= 0; i--) {
        for (int r = i + 1; r < m; r++)
            for (int j = 0; j < k; j++) b[i * k + j] -= a[i * m + r] * b[r * k + j];
        for (int j = 0; j < k; j++) b[i * k + j] /= a[i * m + i];
    }
}
