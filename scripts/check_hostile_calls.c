/* Calls each function of an exported network with arguments that make no sense. All of them must be
 * answered by an error, and calls that make sense must work before and afterwards.
 *
 *   check_hostile_calls LIBRARY NAME
 *
 * LIBRARY: path of libNAME.so, with its weights beside it. The status is the number of answers that
 * are wrong. Tests and check_gpu_export.sh compile and use it; with -DHOSTILE_LIBRARY it is a
 * library with the function hostile_calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
  const char* name;
  const char* dtype;
  int32_t rank;
  const int64_t* shape;
  int64_t bytes;
} heddle_tensor;

typedef struct {
  const char* name;
  int64_t lo, hi, multiple;
} heddle_size;

enum { kMostSizes = 2 };
typedef int (*run_function)(void*, const void* const*, void* const*);
typedef int (*run_function_1)(void*, int64_t, const void* const*, void* const*);
typedef int (*run_function_2)(void*, int64_t, int64_t, const void* const*, void* const*);
typedef int (*gpu_function)(void*, const void* const*, void* const*, void*);
typedef int (*gpu_function_1)(void*, int64_t, const void* const*, void* const*, void*);
typedef int (*gpu_function_2)(void*, int64_t, int64_t, const void* const*, void* const*, void*);

typedef struct {
  void* library;
  const char* name;
  void* (*open)(const char*);
  void (*close)(void*);
  const char* (*error)(void);
  int (*num_inputs)(void);
  int (*num_outputs)(void);
  const heddle_tensor* (*input)(int);
  const heddle_tensor* (*output)(int);
  int (*set_threads)(int); /* NULL: the network is for a GPU */
  int (*num_sizes)(void);  /* NULL: none */
  const heddle_size* (*size)(int);
  void *run, *run_on_gpu;
  int failures;
} network_library;

typedef struct {
  void* handle;
  const int64_t* sizes;
  const void* const* inputs;
  void* const* outputs;
} call;

static void* find(const network_library* l, const char* suffix) {
  char symbol[256];
  snprintf(symbol, sizeof symbol, "%s_%s", l->name, suffix);
  return dlsym(l->library, symbol);
}

static void expect(network_library* l, int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "wrong answer: %s (last error: %s)\n", what, l->error());
  ++l->failures;
}

static int run(const network_library* l, const call* c) {
  const int sizes = l->num_sizes == NULL ? 0 : l->num_sizes();
  if (sizes == 0) return ((run_function)l->run)(c->handle, c->inputs, c->outputs);
  if (sizes == 1) return ((run_function_1)l->run)(c->handle, c->sizes[0], c->inputs, c->outputs);
  return ((run_function_2)l->run)(c->handle, c->sizes[0], c->sizes[1], c->inputs, c->outputs);
}

static int run_on_gpu(const network_library* l, const call* c) {
  const int sizes = l->num_sizes == NULL ? 0 : l->num_sizes();
  void* f = l->run_on_gpu;
  if (sizes == 0) return ((gpu_function)f)(c->handle, c->inputs, c->outputs, NULL);
  if (sizes == 1) return ((gpu_function_1)f)(c->handle, c->sizes[0], c->inputs, c->outputs, NULL);
  return ((gpu_function_2)f)(c->handle, c->sizes[0], c->sizes[1], c->inputs, c->outputs, NULL);
}

/* The call must fail by all functions that run a network. */
static void refused(network_library* l, const call* c, const char* what) {
  expect(l, run(l, c) != 0, what);
  expect(l, l->error()[0] != '\0', what);
  if (l->run_on_gpu != NULL) expect(l, run_on_gpu(l, c) != 0, what);
}

static void try_to_open(network_library* l, const char* weights) {
  expect(l, l->open(weights) == NULL, weights);
  expect(l, l->error()[0] != '\0', weights);
}

static void open_what_is_no_weights(network_library* l, const char* path) {
  static char longest[1 << 17];
  memset(longest, 'x', sizeof longest - 1);
  try_to_open(l, longest);
  try_to_open(l, "");
  try_to_open(l, ".");
  try_to_open(l, "/no/such/file");
  try_to_open(l, "/dev/null");
  try_to_open(l, "/dev/zero");
  try_to_open(l, path); /* the library itself */
  char pipe[4096];
  snprintf(pipe, sizeof pipe, "%s.pipe", path);
  if (mkfifo(pipe, 0600) != 0) return;
  try_to_open(l, pipe); /* it must not wait for a writer */
  unlink(pipe);
}

static void ask_for_what_is_not_there(network_library* l) {
  const int wrong[] = {-1, INT_MIN, INT_MAX};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    expect(l, l->input(wrong[i]) == NULL, "input");
    expect(l, l->output(wrong[i]) == NULL, "output");
    if (l->size != NULL) expect(l, l->size(wrong[i]) == NULL, "size");
  }
  expect(l, l->input(l->num_inputs()) == NULL, "input");
  expect(l, l->output(l->num_outputs()) == NULL, "output");
  if (l->size != NULL) expect(l, l->size(l->num_sizes()) == NULL, "size");
}

static void ask_for_threads(network_library* l) {
  if (l->set_threads == NULL) return;
  const int wrong[] = {-1, 1025, INT_MIN, INT_MAX};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    expect(l, l->set_threads(wrong[i]) != 0, "set_threads of a number that is none");
    expect(l, strstr(l->error(), "threads") != NULL, "what set_threads says");
  }
  const int right[] = {1024, 1, 0, 2};
  for (size_t i = 0; i < sizeof right / sizeof right[0]; ++i)
    expect(l, l->set_threads(right[i]) == 0, "set_threads");
}

static void give_wrong_sizes(network_library* l, call c) {
  const int count = l->num_sizes == NULL ? 0 : l->num_sizes();
  for (int s = 0; s < count; ++s) {
    const heddle_size* size = l->size(s);
    const int64_t wrong[] = {-1, INT64_MIN, INT64_MAX, size->hi + 1, size->lo - 1};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
      int64_t sizes[kMostSizes];
      memcpy(sizes, c.sizes, sizeof sizes);
      sizes[s] = wrong[i];
      const call bad = {c.handle, sizes, c.inputs, c.outputs};
      refused(l, &bad, "a size that is out of range");
    }
  }
}

/* `arrays` is the list of `count` arrays that the call gives; the list has to be whole afterwards.
 */
static void give_wrong_arrays(network_library* l, const call* c, const void** arrays, int count,
                              const heddle_tensor* (*tensor)(int)) {
  for (int i = 0; i < count; ++i) {
    const void* right = arrays[i];
    arrays[i] = NULL;
    refused(l, c, "a null array");
    arrays[i] = (const char*)right + 1;
    if (strchr(tensor(i)->dtype, '8') == NULL && strcmp(tensor(i)->dtype, "bool") != 0)
      refused(l, c, "an array that is not aligned to its elements");
    arrays[i] = right;
  }
}

static void* zeros(const heddle_tensor* tensor) {
  /* aligned as arrays of a GPU have to be */
  const size_t bytes = ((size_t)tensor->bytes + 255) / 256 * 256;
  void* array = aligned_alloc(256, bytes);
  if (array == NULL) exit(2);
  return memset(array, 0, bytes);
}

static void call_it(network_library* l) {
  const int num_inputs = l->num_inputs(), num_outputs = l->num_outputs();
  const void** inputs = calloc((size_t)num_inputs + 1, sizeof *inputs);
  const void** outputs = calloc((size_t)num_outputs + 1, sizeof *outputs);
  if (inputs == NULL || outputs == NULL) exit(2);
  for (int i = 0; i < num_inputs; ++i) inputs[i] = zeros(l->input(i));
  for (int i = 0; i < num_outputs; ++i) outputs[i] = zeros(l->output(i));
  int64_t sizes[kMostSizes] = {0};
  for (int s = 0; l->size != NULL && s < l->num_sizes(); ++s) sizes[s] = l->size(s)->lo;
  call c = {NULL, sizes, inputs, (void* const*)outputs};

  refused(l, &c, "a null network");
  c.handle = &c;
  refused(l, &c, "what is no network");
  c.handle = l->open(NULL);
  void* other = l->open(NULL);
  expect(l, c.handle != NULL && other != NULL && other != c.handle, "open");
  expect(l, run(l, &c) == 0, "a call that makes sense");
  give_wrong_sizes(l, c);
  give_wrong_arrays(l, &c, inputs, num_inputs, l->input);
  give_wrong_arrays(l, &c, outputs, num_outputs, l->output);
  call bad = c;
  bad.outputs = NULL;
  refused(l, &bad, "no list of outputs");
  bad = c;
  bad.inputs = NULL;
  if (num_inputs > 0) refused(l, &bad, "no list of inputs");
  expect(l, run(l, &c) == 0, "a call that makes sense, after others");

  l->close(NULL);
  l->close(&c);
  l->close(c.handle);
  refused(l, &c, "a network that was closed");
  l->close(c.handle);
  c.handle = other;
  expect(l, run(l, &c) == 0, "a call of the network that is still open");
  l->close(other);
  for (int i = 0; i < num_inputs; ++i) free((void*)inputs[i]);
  for (int i = 0; i < num_outputs; ++i) free((void*)outputs[i]);
  free(inputs);
  free(outputs);
}

int hostile_calls(const char* path, const char* name);
int hostile_calls(const char* path, const char* name) {
  network_library l = {.library = dlopen(path, RTLD_NOW | RTLD_LOCAL), .name = name};
  if (l.library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  *(void**)&l.open = find(&l, "open");
  *(void**)&l.close = find(&l, "close");
  *(void**)&l.error = find(&l, "error");
  *(void**)&l.num_inputs = find(&l, "num_inputs");
  *(void**)&l.num_outputs = find(&l, "num_outputs");
  *(void**)&l.input = find(&l, "input");
  *(void**)&l.output = find(&l, "output");
  *(void**)&l.set_threads = find(&l, "set_threads");
  *(void**)&l.num_sizes = find(&l, "num_sizes");
  *(void**)&l.size = find(&l, "size");
  l.run = find(&l, "run");
  l.run_on_gpu = find(&l, "run_on_gpu");
  if (l.open == NULL || l.close == NULL || l.error == NULL || l.num_inputs == NULL ||
      l.num_outputs == NULL || l.input == NULL || l.output == NULL || l.run == NULL ||
      (l.set_threads == NULL) == (l.run_on_gpu == NULL)) {
    fprintf(stderr, "a function of '%s' is missing\n", name);
    return 1;
  }
  expect(&l, l.error() != NULL, "error before any call");
  open_what_is_no_weights(&l, path);
  ask_for_what_is_not_there(&l);
  ask_for_threads(&l);
  call_it(&l);
  return l.failures;
}

#ifndef HOSTILE_LIBRARY
int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s LIBRARY NAME\n", argv[0]);
    return 2;
  }
  return hostile_calls(argv[1], argv[2]);
}
#endif
