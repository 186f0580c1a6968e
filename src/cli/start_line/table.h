// Flags of vLLM, SGLang, TensorRT-LLM, llama.cpp and Ollama, and what nibble does with each. A new flag is a
// row in table.cpp; docs/start-lines.md has the same rows, which a test compares.
#pragma once

#include <span>
#include <string_view>

namespace nibble::cli {

enum class Takes {  // the value of a flag; the same in all rows of a flag
  kNothing,
  kValue,
  kMaybe,    // an optional value; StartFlag::values lists the accepted ones
  kSeveral,  // values up to the next flag
  kCount,    // a number, in vLLM also as 32k (32,000) or 32K (32,768)
  kList,     // a JSON list of texts, or texts separated by commas
  kAllGpus,  // a number: 1, or the value of --tensor-parallel-size
};

enum class Fate {
  kOwn,       // nibble has the flag; StartFlag::here is set only if the spelling differs
  kMapped,    // replaced by the flags in StartFlag::here; the log says so
  kDraft,     // one member of the JSON of --speculative-config, named in StartFlag::here
  kUnneeded,  // dropped, because nibble does this anyway; the log says why
  kRefused,
};

struct StartFlag {
  std::string_view names;    // separated by spaces: "--ubatch-size -ub"
  std::string_view engines;  // those that have the flag: "vLLM, SGLang"
  Takes takes;
  // Values to which the row applies, as patterns (*, ?, [0-9]) separated by |; empty: all values. The first
  // row that applies wins. A row for all values does not apply if the command has the flag itself.
  std::string_view values;
  Fate fate;
  std::string_view
      here;  // "--kv-dtype fp8", "--context {}" with the value; "method=eagle3" or "model" of kDraft
  std::string_view why{};  // kMapped, kDraft: the difference, if any
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
