// Converts experts of any type that a file holds to a format that a backend runs. First decide_experts()
// chooses the format of each matrix; convert_experts() then converts the matrices when the model is loaded.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/console/progress.h"
#include "core/threads/thread_pool.h"
#include "model/convert_blocks.h"
#include "model/weights.h"

namespace nibble {

struct ExpertRules {
  std::optional<Format> asked{};      // format chosen with --experts; nullopt: experts are not rounded
  std::optional<Format> otherwise{};  // format of experts that the backend does not run as they are; nullopt:
                                      // they are refused
  std::function<bool(Format)> runs;   // whether the backend runs experts in a format
  bool takes_any_blocks{false};       // whether the backend reads ggml blocks of every type
  std::string_view backend;           // name of the backend, for messages
};

// Throws InputError if the backend does not run `rules.asked`.
void check_asked(const ExpertRules& rules, const Config& config);

// Chooses the format of all experts: `rules.asked` if set. Otherwise MXFP4 stays as it is. A matrix of
// another type becomes MXFP4 if MXFP4 holds all its blocks of 32 elements exactly, as it does if the file was
// expanded from MXFP4. The check reads the file up to the first block that is not exact. Any other matrix
// keeps its type if the backend runs it, or becomes F32 if the backend runs that. If the backend runs
// neither, it becomes `rules.otherwise`. Throws InputError if that is not set, or if the backend does not run
// `rules.asked`. Afterwards only matrices that must be converted are StoredExperts.
void decide_experts(Weights& weights, const ExpertRules& rules, ThreadPool& pool,
                    const ReportProgress& report = {});

// Converts all StoredExperts to the chosen formats, with kExpertRows rows of extra memory for each thread,
// and releases the pages of the file. LayerWeights::experts_storage keeps the results alive. Logs one line
// for each pair of old and new type. Returns `weights` if there is nothing to do.
std::shared_ptr<const Weights> convert_experts(std::shared_ptr<const Weights> weights, ThreadPool& pool,
                                               const ReportProgress& report = {});

// Whether every block of 32 elements of these experts, which have the shape of `first`, is exact in MXFP4.
bool is_exactly_mxfp4(const StoredExperts& stored, const Matrix& first, int num_experts, ThreadPool& pool);
// Rounds the experts to MXFP4. A null output is not written.
void to_mxfp4(const StoredExperts& stored, const Matrix& first, int num_experts, const Mxfp4Output& to,
              ThreadPool& pool);

// Describes how the experts run, after decide_experts(): "BF16 in the file, exactly MXFP4", "MXFP4 in the
// file", "Q5_0 in the file, rounded to MXFP4". If layers differ: several, separated by semicolons.
std::string describe_experts(const Weights& weights);

// Returns the bytes of a model's experts if all of them have this format.
size_t expert_bytes(const Config& config, Format format);

}  // namespace nibble
