// Prints what the peers and the ceilings reach on this machine.
#pragma once

namespace heddle::peers {

void print_figures(int threads);

}  // namespace heddle::peers
