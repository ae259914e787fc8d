// The options that several commands have.
#include <CLI/CLI.hpp>

#include "options.h"
#include "subjects/input_file.h"

namespace heddle::cli {
void add_subject(CLI::App* c, std::string& subject, const std::string& what) {
  c->add_option("subject", subject, what)->required();
}

void add_target(CLI::App* c, std::string& target) {
  c->add_option("--target", target,
                "Machine: llvm -mcpu=NAME, cuda (the GPU that is here) or cuda -gpu=NAME (" +
                    (target.empty() ? "as the heuristic needs" : target) + ")");
}

void add_kernel_options(CLI::App* c, KernelOptions& o) {
  c->add_option(
      "--dtype", o.dtype,
      "Type of the inputs. Of a model f32, f16 or bf16: the type that it computes in and "
      "has its weights in; its inputs and outputs keep those of the file, and sums, norms "
      "and softmax are in f32 (f32)");
  c->add_option("--threads", o.threads, "Threads of the kernels (all cores)")
      ->check(CLI::Range(1, 1024));
  add_target(c, o.target);
}

void add_dims(CLI::App* c, std::vector<std::string>& dims) {
  listed(c->add_option("--dims", dims,
                       "Extents of the model's open dimensions, as behind its name: "
                       "batch=1,sequence=128; ranges: sequence=1..128"));
}

void add_model_options(CLI::App* c, SubjectOptions& o, const std::string& what) {
  add_subject(c, o.subject, what);
  add_dims(c, o.dims);
  add_kernel_options(c, o);
  c->add_option("--passes", o.passes,
                "Passes over a model's graph to turn off or on, and single choices, such as "
                "-join_products,channels_last@7x7 (`heddle explain MODEL.onnx` lists them)");
  c->add_option("--plan", o.plan,
                "The plan of a model, as `heddle tune` writes it with -o; none: no plan "
                "(MODEL.heddle beside the model, else records)")
      ->type_name("FILE");
  c->add_flag("-q,--quiet", o.quiet, "Do not say which plan or which records decide");
}

void add_call_sizes(CLI::App* c, std::vector<std::string>& sizes, const std::string& what) {
  listed(c->add_option("--sizes", sizes,
                       "Sizes of a range to " + what +
                           " at: 17,128; of two ranges, in the order of their names: 8x32,64x1 "
                           "(both ends and a middle, or those of input files)"));
}

void add_race_options(CLI::App* c, std::vector<std::string>& sizes, int& max_kernels) {
  listed(c->add_option(
      "--sizes", sizes,
      "Sizes of a range that are expected, with how often: 1*9,17,512; of two ranges: "
      "8x32*2,64x1 (sizes whose logarithms are evenly spaced, each as often)"));
  c->add_option("--max-kernels", max_kernels,
                "Kernels that a range of sizes may have; of a model, each of its nodes (6)")
      ->check(CLI::Range(1, 64));
}

void add_json(CLI::App* c, bool& json) { c->add_flag("--json", json, "Print JSON"); }

void add_json(CLI::App* c, std::string& file) {
  c->add_option("--json", file,
                "Write the results to this file too; -: to standard output, and the tables to "
                "standard error");
}

CLI::Option* repeated(CLI::Option* option) { return option->allow_extra_args(false); }

CLI::Option* listed(CLI::Option* option) { return repeated(option->delimiter(',')); }

CLI::Option* existing(CLI::Option* option) { return option->check(why_no_file, "FILE"); }

}  // namespace heddle::cli
