/* A core guest built with a WASI libc: its toolchain drags imports in, and it prints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *buffer;
static int made;

__attribute__((constructor)) static void make(void) { made = 1; }

__attribute__((export_name("channel_abi"))) int channel_abi(void) { return made; }

__attribute__((export_name("channel_reserve"))) char *channel_reserve(int size) {
  buffer = realloc(buffer, size ? size : 1);
  return buffer;
}

__attribute__((export_name("channel_deliver"))) unsigned long long channel_deliver(char *at, int size) {
  if (size > 1 && at[1] == 'p') printf("printed by the guest\n");
  if (size > 1 && at[1] == 'f') fprintf(stderr, "%s\n", fopen("/etc/passwd", "r") ? "read" : "denied");
  if (size > 1 && at[1] == 'a') abort();
  if (size > 1 && at[1] == 'e') exit(4);
  for (int i = 0; i < size; i++)
    if (i == 0 || at[i - 1] == '\n') at[i] = at[i] == 'p' ? 's' : 'p';
  return (unsigned long long)(unsigned long)at << 32 | (unsigned)size;
}
