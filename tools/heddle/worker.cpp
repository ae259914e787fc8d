// heddle worker: compiles and times candidates that arrive on the standard input.
#include "heddle/measure/worker.h"

#include "commands.h"

namespace heddle::cli {

int run_worker(const Request& /*request*/) {
  const char* const name = "heddle";
  return worker_main(1, &name);
}

}  // namespace heddle::cli
