/* Undefines what attention.h was told, so that it can be included again. */

#undef NAME
#undef TARGET
#undef WIDTH
#undef TILE_ROWS
#undef TILE_VECTORS
#undef LANES
#undef INLINE
#undef QUERIES
