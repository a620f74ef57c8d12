// A plan in print.
#pragma once

#include <string>

#include "plan/plan.h"

namespace ashlar::plan {

// For a terminal: tables, and the working of every sum in them.
std::string TextReport(const Plan& plan);

// One line, one JSON object:
//   kv_bytes_per_token     all lanes, no window saving
//   kv_bytes_per_sequence  promised at admission: what the engine reserves for it
//   kv_bytes_held          of one sequence at its end: what the engine then says it used
//   kv_bytes_total         of all sequences
//   weights_bytes          as chosen
//   fits                   {sequences, context}, or null where no memory was given
//   groups                 [...], and model, workload, codecs, weights, memory, frontier,
//                          rules_of_thumb
std::string JsonReport(const Plan& plan);

// One page, complete in itself: the tables, and plots of context against memory and of what fits.
std::string HtmlReport(const Plan& plan);

}  // namespace ashlar::plan
