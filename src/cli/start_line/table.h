// Flags of vLLM, SGLang, TensorRT-LLM, llama.cpp and Ollama, and nibble's treatment of each. A new flag is a
// row in table.cpp. docs/start-lines.md has the same rows; a test compares them.
#pragma once

#include <span>
#include <string_view>

namespace nibble::cli {

enum class Takes {  // kind of a flag's value; the same in all rows of a flag
  kNothing,
  kValue,
  kMaybe,    // an optional value, one of StartFlag::values
  kSeveral,  // values up to the next flag
  kCount,    // a number, in vLLM also as 32k (32,000) or 32K (32,768)
  kList,     // a JSON list of texts, or texts separated by commas
  kAllGpus,  // number of GPUs: 1, or all (the value of --tensor-parallel-size)
};

enum class Fate {
  kOwn,       // nibble has this flag too; StartFlag::here is its spelling if different
  kMapped,    // nibble uses the flags in StartFlag::here instead; the log reports it
  kDraft,     // becomes the member StartFlag::here of --speculative-config's JSON
  kUnneeded,  // dropped, because nibble does this without a flag; the log says so
  kRefused,
};

struct StartFlag {
  std::string_view names;    // separated by spaces: "--ubatch-size -ub"
  std::string_view engines;  // engines that have the flag: "vLLM, SGLang"
  Takes takes;
  // Values to which the row applies, as patterns (*, ?, [0-9]) separated by |; empty: all values. The first
  // row that applies is used. A row for all values does not apply if nibble's command has the flag.
  std::string_view values;
  Fate fate;
  // kMapped, and kOwn with another spelling: nibble's flag, "--kv-dtype fp8", or "--context {}" where {}
  // stands for the given value. kDraft: a member of the JSON, "method=eagle3", or "model", whose value is the
  // given value. kUnneeded and kRefused: the reason.
  std::string_view here;
  // kMapped and kDraft: how nibble differs from the other engine; empty if it does not differ
  std::string_view why{};
};

struct StartFlagGroup {
  std::string_view title;
  std::span<const StartFlag> flags;
};
std::span<const StartFlagGroup> start_flag_groups();

struct StartVariable {  // an environment variable of another engine; nibble does not read it
  std::string_view name, engine;
  std::string_view instead;
};
std::span<const StartVariable> start_variables();

}  // namespace nibble::cli
