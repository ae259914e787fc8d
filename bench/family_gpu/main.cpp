// Families of kernels on a GPU.
//
//   family_gpu check [COUNT] [SEED]              random families at random sizes against the
//                                                interpreter
//   family_gpu figures [SIZES] [SECONDS] [SUBJECT...]
//                                                unseen sizes: a family, its kernels without a race
//                                                and one kernel against the static choice for each
//                                                size. With SECONDS the sizes are tuned for so long
//                                                in all, and the family for four times the share of
//                                                one size, its race included
//   family_gpu dispatch                          what a family adds to a call before the launch
#include <CLI/CLI.hpp>
#include <cstdio>

#include "family_gpu/parts.h"
#include "heddle/support/error.h"
#include "subjects/target_text.h"

int main(int argc, char** argv) {
  using namespace heddle;
  CLI::App app("Families of kernels on a GPU");
  app.require_subcommand(1);
  bench::CheckOptions check;
  CLI::App* checks = app.add_subcommand("check", "random families against the interpreter");
  checks->add_option("count", check.count, "families")->capture_default_str();
  checks->add_option("seed", check.seed, "of the families")->capture_default_str();
  checks->add_flag("--generic", check.generic, "the kernels of generic_family, too");
  bench::FigureOptions figure;
  std::vector<std::string> dtypes = {"f16"};
  bool no_family = false, no_one = false;
  CLI::App* figures = app.add_subcommand("figures", "families against a kernel for each size");
  figures->add_option("sizes", figure.sizes, "how many sizes are drawn")->capture_default_str();
  figures->add_option("seconds", figure.seconds, "tuning of all sizes, 0: the static choices")
      ->capture_default_str();
  figures->add_option("subjects", figure.subjects, "such as softmax:4096x1..8192");
  figures->add_option("--dtype", dtypes, "types of the elements")->delimiter(',');
  figures->add_option("--at", figure.at, "these sizes instead: 1,17,300");
  figures->add_option("--seed", figure.seed, "of the sizes")->capture_default_str();
  figures->add_flag("--no-family", no_family, "leave choose_family and its race out");
  figures->add_flag("--no-one", no_one, "leave out the one kernel for all sizes");
  figures->add_option("--only-build", figure.build_for,
                      "build for this target and time nothing: \"cuda -gpu=h200\"");
  const CLI::App* dispatch = app.add_subcommand("dispatch", "what a family adds to a call");
  CLI11_PARSE(app, argc, argv);
  try {
    if (checks->parsed()) return bench::check_families(check) ? 0 : 1;
    if (dispatch->parsed()) bench::print_dispatch();
    if (!figures->parsed()) return 0;
    if (figure.subjects.empty())
      figure.subjects = {"matmul:1..2048x768x768", "softmax:4096x1..8192"};
    for (const std::string& name : dtypes) figure.dtypes.push_back(cli::dtype_of(name));
    figure.family = !no_family;
    figure.one = !no_one;
    bench::print_figures(figure);
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
  return 0;
}
