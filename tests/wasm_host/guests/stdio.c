/* An ordinary program with C's stdio: reads lines, answers each, has a few tricks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
  static char line[1 << 16];
  while (fgets(line, sizeof line, stdin)) {
    if (!strcmp(line, "file\n")) {
      FILE *file = fopen("/etc/passwd", "r");
      printf("{\"file\":%d,\"argc\":%d,\"env\":%d}\n", file != NULL, argc, getenv("HOME") != NULL);
    } else if (!strcmp(line, "time\n")) {
      printf("{\"time\":%lld}\n", (long long)time(NULL));
    } else if (!strcmp(line, "sleep\n")) {
      struct timespec before, after;
      clock_gettime(CLOCK_MONOTONIC, &before);
      sleep(3600);
      clock_gettime(CLOCK_MONOTONIC, &after);
      printf("{\"slept\":%lld}\n", (long long)(after.tv_sec - before.tv_sec));
    } else if (!strcmp(line, "random\n")) {
      unsigned char bytes[4];
      getentropy(bytes, 4);
      printf("{\"random\":\"%02x%02x%02x%02x\"}\n", bytes[0], bytes[1], bytes[2], bytes[3]);
    } else if (!strcmp(line, "half\n")) {
      printf("{\"half\":");
      fflush(stdout);
    } else if (!strcmp(line, "abort\n")) {
      fprintf(stderr, "about to abort\n");
      abort();
    } else if (!strcmp(line, "exit\n")) {
      exit(7);
    } else {
      printf("got %s", line);
    }
  }
  fprintf(stderr, "end of input\n");
  return 0;
}
