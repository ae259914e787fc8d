// The template of a graph: what the meta-templates write for its groups.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heddle/schedule/template.h"
#include "schedule/templates/graph_choice.h"

namespace heddle {

/// What meta-templates are asked to write a template for.
struct TemplateOrder {
  ComputeDag dag;
  Target target;  ///< as the options limit it
  AutoSchedulerOptions options;
  /// Chooses in place of the rules; null: the rules alone.
  std::shared_ptr<const ChoiceSource> source = nullptr;
  GraphChoice chosen = {};  ///< by which `dag` was chosen
};

/// The note of a template about the choice of its graph; empty where there is nothing to say.
std::string note_of(const GraphChoice& choice);

/// The template that `all` write. Its static choice is legal: where that of the source is not, the
/// rules choose alone, and where theirs is not either, the template is that of the naive schedule.
/// Notes and refusals say so. With a forced template nothing takes its place, and what is wrong is
/// an Error.
Template write_template(const std::vector<MetaTemplate>& all, const TemplateOrder& order);

}  // namespace heddle
