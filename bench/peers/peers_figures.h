// Prints what the peers and the ceilings reach on this machine.
#ifndef HEDDLE_BENCH_PEERS_PEERS_FIGURES_H_
#define HEDDLE_BENCH_PEERS_PEERS_FIGURES_H_

namespace heddle::bench {

void print_figures(int threads);

}  // namespace heddle::bench

#endif  // HEDDLE_BENCH_PEERS_PEERS_FIGURES_H_
