#include "heddle/network/network.h"

namespace heddle {

TuneReport tune(const Network& network, const TuneOptions& options) {
  return tune_tasks(network.tasks(), options);
}

}  // namespace heddle
