// Converts experts of any type that a file holds to a format that a backend runs. First decide_experts()
// chooses the format of each matrix; convert_experts() then writes it, when the model is loaded.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/progress.h"
#include "core/thread_pool.h"
#include "model/convert_blocks.h"
#include "model/weights.h"

namespace nibble {

struct ExpertRules {
  std::optional<Format> asked{};     // --experts; nullopt: without rounding
  std::function<bool(Format)> runs;  // whether the backend runs experts in a format
  bool takes_any_blocks{false};      // whether it reads ggml blocks of every type
  std::string_view backend;          // its name, for messages
};

// Throws InputError if the backend does not run the format that was asked for.
void check_asked(const ExpertRules& rules, const Config& config);

// Chooses the format of all experts. MXFP4 stays as it is. A matrix of which every block of 32 elements is
// exact in MXFP4 (of a model that was expanded from it) becomes MXFP4; to find that out, the file is read
// until the first block that is not. Other matrices keep their type if the backend runs it. Throws InputError
// if it does not and no format was asked for, or if the backend does not run the one that was asked for.
// Afterwards StoredExperts are left only where there is something to convert.
void decide_experts(Weights& weights, const ExpertRules& rules, ThreadPool& pool,
                    const ReportProgress& report = {});

// Converts all StoredExperts to the formats chosen, with kExpertRows rows of extra memory for each thread,
// and releases the pages of the file. LayerWeights::experts_storage keeps the results alive. Logs a line for
// each pair of types. Returns `weights` if there is nothing to do.
std::shared_ptr<const Weights> convert_experts(std::shared_ptr<const Weights> weights, ThreadPool& pool,
                                               const ReportProgress& report = {});

// Whether every block of 32 elements of these experts, which have the shape of `first`, is exact in MXFP4.
bool is_exactly_mxfp4(const StoredExperts& stored, const Matrix& first, int num_experts, ThreadPool& pool);
// Rounds them to MXFP4. An output that is null is not written.
void to_mxfp4(const StoredExperts& stored, const Matrix& first, int num_experts, const Mxfp4Output& to,
              ThreadPool& pool);

// How the experts run, after decide_experts(): "BF16 in the file, exactly MXFP4", "MXFP4 in the file", "Q5_0
// in the file, rounded to MXFP4". Several parts, with a semicolon between them, if the layers differ.
std::string describe_experts(const Weights& weights);

// Bytes of a model's experts if all are in this format.
size_t expert_bytes(const Config& config, Format format);

}  // namespace nibble
