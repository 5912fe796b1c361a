"""Elements picked and written by indices."""
