// What templates, rewrite rules and heuristics of your own need beside heddle.h: graphs, their
// patterns and rewrites, schedules and their choices, lowered programs, instructions of matrix
// units, and decision trees.
#pragma once

#include "heddle/codegen/cuda.h"
#include "heddle/codegen/emulator.h"
#include "heddle/dag/all_producers.h"
#include "heddle/dag/attention.h"
#include "heddle/dag/computed_matrix.h"
#include "heddle/dag/factors.h"
#include "heddle/dag/generalize.h"
#include "heddle/dag/operations.h"
#include "heddle/dag/scatter.h"
#include "heddle/driver/gpu_kernel_use.h"
#include "heddle/heuristics/collect.h"
#include "heddle/heuristics/constants.h"
#include "heddle/heuristics/dataset.h"
#include "heddle/heuristics/heuristic.h"
#include "heddle/heuristics/learn.h"
#include "heddle/heuristics/train_tree.h"
#include "heddle/heuristics/trained_tree.h"
#include "heddle/heuristics/tree_choices.h"
#include "heddle/instruction/instruction.h"
#include "heddle/instruction/tiles.h"
#include "heddle/support/decision_tree.h"
#include "heddle/target/last_round.h"
#include "heddle/target/product_tasks.h"
#include "heddle/target/rule_constants.h"
