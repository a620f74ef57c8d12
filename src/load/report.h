// A run's figures: as JSON rows, as a table for people, as a page with plots.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "load/results.h"

namespace ashlar::load {

using ReportJson = nlohmann::ordered_json;

struct RunInfo {
  ReportJson params = ReportJson::object();  // what was asked for: server, model, workload, pace
  double duration_s = 0;                     // from the first request to the last answer
  bool is_interrupted = false;
};

// One object per row, each with `name` and `params`: "serve/summary", then "serve/ttft",
// "serve/itl", "serve/tpot", "serve/e2e", "serve/delay" (of what has been measured), then a
// "serve/failure" for each kind.
std::vector<ReportJson> JsonRows(const RunInfo& info, const Results& results);

std::string TextReport(const RunInfo& info, const Results& results);

// One HTML document that needs nothing else.
std::string HtmlReport(const RunInfo& info, const Results& results);

}  // namespace ashlar::load
