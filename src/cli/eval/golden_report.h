// Reports `eval --golden` as a table or JSON, with the tolerances.
#pragma once

#include <string_view>
#include <vector>

#include "cli/eval/golden.h"
#include "core/text/json.h"

namespace nibble::cli {

void print_golden_table(const std::vector<GoldenResult>& results, const GoldenTolerance& tolerance,
                        std::string_view backend);
Json golden_json(const std::vector<GoldenResult>& results, const GoldenTolerance& tolerance,
                 std::string_view backend);

}  // namespace nibble::cli
