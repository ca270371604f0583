/* The wall clock of a process, moved by what a file says; the monotonic clocks are left alone.
   Loaded before the C library (LD_PRELOAD) by tests/support/wall_clock.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *seconds;

__attribute__((constructor)) static void open_file(void) {
    const char *path = getenv("WALL_CLOCK_FILE");
    int file = path == NULL ? -1 : open(path, O_RDONLY);
    void *place = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *seconds, PROT_READ, MAP_SHARED, file, 0);
    if (place == MAP_FAILED)
        abort();
    seconds = place;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*system_clock)(clockid_t, struct timespec *);
    if (system_clock == NULL)
        system_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = system_clock(clock, now);
    if (result == 0 && clock == CLOCK_REALTIME && seconds != NULL)
        now->tv_sec += *seconds;
    return result;
}
