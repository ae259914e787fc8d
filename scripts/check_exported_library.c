/* Runs an exported network from C: fills its inputs, calls it, and compares its outputs with those
 * that another library of the same network wrote. check_gpu_export.sh compiles and uses it.
 *
 *   check_exported_library LIBRARY NAME[:SIZES] OUTPUTS [REFERENCE]
 *
 * LIBRARY: path of libNAME.so. SIZES: of each call, for a library over ranges, such as 17 or 2x17.
 * OUTPUTS: file to write all outputs to. REFERENCE: such a file of another run; the status is 1
 * where an element differs by more than 1e-3 of the largest one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
  const char* name;
  const char* dtype;
  int32_t rank;
  const int64_t* shape;
  int64_t bytes;
} heddle_tensor;

typedef int (*run_function)(void*, const void* const*, void* const*);
typedef int (*run_function_1)(void*, int64_t, const void* const*, void* const*);
typedef int (*run_function_2)(void*, int64_t, int64_t, const void* const*, void* const*);
typedef int (*run_function_3)(void*, int64_t, int64_t, int64_t, const void* const*, void* const*);

static void* library;
static char name[128];
static int64_t sizes[3];
static int num_sizes;

/* "matmul:17x3" is a name and two sizes. */
static void read_name(const char* text) {
  const size_t length = strcspn(text, ":");
  snprintf(name, sizeof name, "%.*s", (int)length, text);
  const char* at = text + length;
  while (*at != '\0' && num_sizes < 3) {
    char* end = NULL;
    sizes[num_sizes++] = strtoll(at + 1, &end, 10);
    at = end;
  }
}

static void* find(const char* suffix) {
  char symbol[256];
  snprintf(symbol, sizeof symbol, "%s_%s", name, suffix);
  void* found = dlsym(library, symbol);
  if (found == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  return found;
}

static int call(void* run, void* network, const void* const* inputs, void* const* outputs) {
  if (num_sizes == 0) return ((run_function)run)(network, inputs, outputs);
  if (num_sizes == 1) return ((run_function_1)run)(network, sizes[0], inputs, outputs);
  if (num_sizes == 2) return ((run_function_2)run)(network, sizes[0], sizes[1], inputs, outputs);
  return ((run_function_3)run)(network, sizes[0], sizes[1], sizes[2], inputs, outputs);
}

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Floats in [-1, 1), small numbers for integers; the same on every machine. */
static void fill(const heddle_tensor* t, void* data) {
  uint32_t state = 12345;
  if (strcmp(t->dtype, "f32") != 0) {
    memset(data, 0, (size_t)t->bytes);
    if (strcmp(t->dtype, "i64") == 0) {
      for (int64_t i = 0; i < t->bytes / 8; ++i) ((int64_t*)data)[i] = i % 7;
    }
    return;
  }
  for (int64_t i = 0; i < t->bytes / 4; ++i) {
    state = state * 1664525u + 1013904223u;
    ((float*)data)[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
  }
}

/* 0: the same up to rounding. */
static int compare(const float* got, const float* want, int64_t count) {
  double largest = 0, worst = 0;
  for (int64_t i = 0; i < count; ++i) {
    /* What no call wrote is NaN in both. */
    if (isnan(got[i]) != isnan(want[i])) worst = INFINITY;
    if (isnan(got[i]) || isnan(want[i])) continue;
    largest = fmax(largest, fabs(want[i]));
    worst = fmax(worst, fabs((double)got[i] - want[i]));
  }
  printf("largest output %g, largest difference %g\n", largest, worst);
  return worst <= 1e-3 * largest ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc < 4) return fprintf(stderr, "usage: %s LIBRARY NAME[:SIZES] OUTPUTS [REFERENCE]\n", argv[0]), 2;
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 2;
  read_name(argv[2]);
  void* (*open)(const char*) = (void* (*)(const char*))find("open");
  void* run = find("run");
  void (*close)(void*) = (void (*)(void*))find("close");
  const char* (*error)(void) = (const char* (*)(void))find("error");
  const heddle_tensor* (*input)(int) = (const heddle_tensor* (*)(int))find("input");
  const heddle_tensor* (*output)(int) = (const heddle_tensor* (*)(int))find("output");

  const double begin = now_s();
  void* network = open(NULL);
  if (network == NULL) return fprintf(stderr, "%s\n", error()), 2;
  printf("opened in %.1f ms\n", 1e3 * (now_s() - begin));
  const void* inputs[64];
  void* outputs[64];
  int64_t bytes = 0;
  int num_outputs = 0;
  for (int i = 0; i < 64 && input(i) != NULL; ++i) {
    void* data = malloc((size_t)input(i)->bytes);
    fill(input(i), data);
    inputs[i] = data;
  }
  for (; num_outputs < 64 && output(num_outputs) != NULL; ++num_outputs)
    bytes += output(num_outputs)->bytes;
  char* all = malloc((size_t)bytes);
  char* next = all;
  for (int i = 0; i < num_outputs; next += output(i++)->bytes) outputs[i] = next;

  /* The first call loads, the second makes a graph on a GPU. */
  double least = INFINITY;
  for (int i = 0; i < 20; ++i) {
    memset(all, 0xff, (size_t)bytes);
    const double start = now_s();
    if (call(run, network, inputs, outputs) != 0) return fprintf(stderr, "%s\n", error()), 2;
    least = fmin(least, now_s() - start);
  }
  printf("a call takes %.3f ms, with its copies\n", 1e3 * least);
  close(network);

  FILE* file = fopen(argv[3], "wb");
  if (file == NULL || fwrite(all, 1, (size_t)bytes, file) != (size_t)bytes || fclose(file) != 0)
    return fprintf(stderr, "cannot write %s\n", argv[3]), 2;
  if (argc < 5) return 0;
  char* want = malloc((size_t)bytes);
  FILE* reference = fopen(argv[4], "rb");
  if (reference == NULL || fread(want, 1, (size_t)bytes, reference) != (size_t)bytes)
    return fprintf(stderr, "cannot read %s\n", argv[4]), 2;
  fclose(reference);
  return compare((const float*)all, (const float*)want, bytes / 4);
}
