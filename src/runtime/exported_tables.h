/* The tables of an exported network. This text is part of every file that export_network generates,
 * so it is C. */
#include <stdint.h>

/* An input or an output. */
typedef struct {
  const char* name;
  const char* dtype; /* "f32", "i64", "bool", ... */
  int32_t rank;
  const int64_t* shape;
  int64_t bytes;
} heddle_tensor;

/* What a step is given for one of its parameters. */
enum { HEDDLE_ARGUMENT = 0, HEDDLE_ARENA = 1, HEDDLE_WEIGHTS = 2, HEDDLE_NOTHING = 3 };
typedef struct {
  int32_t where;
  int64_t
      at; /* inputs, then outputs are counted; in the arena and the weights: bytes from the start */
} heddle_place;

typedef struct {
  const char* name;
  int (*entry)(void* const* parameters); /* 0: done; else memory for temporaries could not be had */
  int32_t num_places;
  const heddle_place* places;
} heddle_step;

typedef struct {
  int32_t version;
  const char* name;
  const char* target;
  int32_t num_features;
  const char* const* features; /* what the CPU must have, by LLVM's names */
  int32_t num_inputs, num_outputs;
  const heddle_tensor* tensors; /* inputs, then outputs */
  int32_t num_steps;
  const heddle_step* steps;
  int64_t arena_bytes; /* what passes between steps, for each call at a time */
  int64_t weights_bytes;
  uint64_t weights_hash;
} heddle_network_tables;

typedef struct heddle_network heddle_network;
heddle_network* heddle_network_open(const heddle_network_tables* tables, const char* weights);
int heddle_network_run(heddle_network* network, const void* const* inputs, void* const* outputs);
void heddle_network_close(heddle_network* network);
const char* heddle_network_error(void);
void heddle_network_set_threads(int count);
