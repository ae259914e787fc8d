// The options of the commands about plans: plan and deploy.
#include <CLI/CLI.hpp>

#include "options.h"

namespace heddle::cli {
namespace {

CLI::App* add_command(CLI::App* plan, PlanOptions& o, const std::string& name,
                      const std::string& what, int least, int most) {
  CLI::App* c = plan->add_subcommand(name, what);
  existing(c->add_option("plans", o.files, "Plans of `heddle tune MODEL.onnx -o FILE.heddle`"))
      ->required()
      ->expected(least, most);
  c->callback([&o, name] { o.command = name; });
  return c;
}

void add_out(CLI::App* c, PlanOptions& o, const std::string& what) {
  c->add_option("-o,--output", o.out, what)->type_name("FILE");
}

}  // namespace

void add_plan(CLI::App& app, PlanOptions& o) {
  constexpr int kMany = 1000;
  CLI::App* c = app.add_subcommand("plan", "Show, compare and renew what tuning chose for models");
  c->require_subcommand(1);
  CLI::App* show =
      add_command(c, o, "show", "Show what a plan chooses, and what it rests on", 1, 1);
  show->footer("Example: heddle plan show net.heddle");
  CLI::App* diff = add_command(c, o, "diff", "Compare what two plans choose", 2, 2);
  diff->footer("Exit status 1: they differ.\nExample: heddle plan diff old.heddle new.heddle");
  CLI::App* check = add_command(
      c, o, "check", "Import the model, and tell what of the plan holds for it on a machine", 1, 1);
  check->add_option("--model", o.subject, "Another model than that of the plan: net.onnx:batch=1");
  add_dims(check, o.dims);
  add_kernel_options(check, o);
  check->footer(
      "Exit status 1: not all of it holds.\n"
      "Examples:\n"
      "  heddle plan check net.heddle\n"
      "  heddle plan check net.heddle --threads 4\n"
      "  heddle plan check net.heddle --model newer.onnx:batch=1");
  CLI::App* merge = add_command(
      c, o, "merge", "Take the better proven choice of each node of several plans", 2, kMany);
  add_out(merge, o, "The plan to write");
  merge->get_option("--output")->required();
  merge->footer(
      "The plans are of one network, target and number of threads; later ones win ties.\n"
      "Example: heddle plan merge monday.heddle tuesday.heddle -o net.heddle");
  CLI::App* retune = add_command(
      c, o, "retune", "Race the schedules of a plan on this machine, without a search", 1, 1);
  add_out(retune, o, "The plan to write (the plan itself, where it is of this target)");
  retune->add_option("--budget", o.budget, "How long: 90, 90s, 2m (60s)");
  add_dims(retune, o.dims);
  add_kernel_options(retune, o);
  retune->footer("Example: heddle plan retune net.heddle --threads 4 --budget 30s -o net4.heddle");
}

void add_deploy(CLI::App& app, DeployOptions& o) {
  CLI::App* c = app.add_subcommand(
      "deploy", "Tune a model, export it, and check the library, all in one folder");
  add_subject(c, o.subject, "An ONNX file: model.onnx:batch=1");
  add_dims(c, o.dims);
  add_kernel_options(c, o);
  c->add_option("--batch", o.batch, "The dimension called batch: 1, or a range, 1..32");
  c->add_option("-o,--output", o.output, "The folder to write in")->type_name("FOLDER")->required();
  c->add_option("--budget", o.budget, "How long to tune: 90, 90s, 2m, 1h30m (5m)");
  c->footer(
      "The folder gets libNAME.so, NAME.h, NAME.weights, the plan NAME.heddle, the log NAME.jsonl\n"
      "and report.html. The library is called on random inputs, and its outputs are compared with\n"
      "those of naive schedules of the graph as declared. A second call, with the same model or a\n"
      "newer one, goes on from plan and log: nodes that are declared alike keep what was "
      "measured.\n"
      "Exit status 1: the outputs differ, or nothing could be measured; 130: stopped by Ctrl-C.\n"
      "Examples:\n"
      "  heddle deploy resnet50.onnx --batch 1 -o resnet50 --budget 10m\n"
      "  heddle deploy bert.onnx --dims batch=1,seq=1..512 -o bert --threads 8");
}

}  // namespace heddle::cli
