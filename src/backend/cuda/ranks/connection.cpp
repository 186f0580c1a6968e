#include "backend/cuda/ranks/connection.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "backend/cuda/chip/device.h"
#include "backend/cuda/chip/target.h"
#include "backend/cuda/chip/wait.h"
#include "backend/cuda/limits.h"
#include "backend/cuda/pipeline/row_limits.h"
#include "backend/cuda/ranks/nccl_sum.h"
#include "backend/cuda/ranks/peer_sum.h"
#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/program/log.h"

namespace nibble::cuda {

Connection connection_of(const Config& config, const BackendOptions& options, const CudaOptions& own,
                         std::string_view source, std::vector<int> devices) {
  Connection connection;
  if (own.num_ranks() == 1) return connection;
  connection.links = options.links;
  connection.shares = shares_of(config, own, source);
  NIBBLE_CHECK(!own.node_rank || connection.links, "a node without links");
  const std::string no_access = own.requests_nccl() ? "" : why_not_connected(devices);
  if (!own.requests_nccl() && no_access.empty()) return connection;
  try {
    connection.nccl = Nccl::load(own.nccl, own.interface);
  } catch (const InputError& error) {
    if (no_access.empty()) throw;
    throw InputError("--tensor-parallel-size {}: {}, and NCCL, which does not need that, is missing: {}",
                     own.num_ranks(), no_access, error.what());
  }
  std::ranges::sort(devices);
  if (std::ranges::adjacent_find(devices) != devices.end())
    throw InputError("--gpus {}: NCCL accepts each GPU only once", fmt::join(own.gpus, ","));
  log::info("{}NCCL {} sums over ranks", no_access.empty() ? "" : no_access + ": ",
            connection.nccl->version());
  return connection;
}

void open_memory(const Connection& connection, std::span<const int> devices) {
  if (connection.shares.size() > 1 && !connection.nccl) connect(devices);
}

namespace {

using Sums = std::vector<std::unique_ptr<RankSum>>;

Sums connect_by_nccl(const Connection& connection, const Config& config, int max_batch_tokens,
                     CardThreads& threads, std::span<const LocalRank> ranks) {
  const GroupId id = connection.links ? connection.links->group() : connection.nccl->new_group();
  const NcclGroup group{connection.nccl, id, connection.shares, connection.links};
  Sums sums(ranks.size());
  threads.run([&](size_t card) {
    for (size_t n = 0; n < ranks.size(); ++n)
      if (ranks[n].card == card)
        sums[n] = std::make_unique<NcclSum>(group, ranks[n].rank, config, max_batch_tokens, *ranks[n].work);
  });
  return sums;
}

Sums connect_by_writes(const Connection& connection, const Config& config, int max_batch_tokens,
                       CardThreads& threads, std::span<const LocalRank> ranks) {
  const size_t num_ranks = connection.shares.size();
  Sums sums(ranks.size());
  std::vector<PeerSum*> all(num_ranks);
  threads.run([&](size_t card) {
    for (size_t n = 0; n < ranks.size(); ++n) {
      if (ranks[n].card != card) continue;
      auto sum = std::make_unique<PeerSum>(config, static_cast<int>(num_ranks), max_batch_tokens,
                                           *ranks[n].work, ranks[n].stream);
      all[ranks[n].rank] = sum.get();
      sums[n] = std::move(sum);
      wait_for_stream(ranks[n].stream, "running the model");
    }
  });
  const auto timeout = std::make_shared<FailureFlag>();
  for (size_t r = 0; r < num_ranks; ++r) all[r]->link(static_cast<int>(r), all, timeout);
  return sums;
}

}  // namespace

std::vector<std::unique_ptr<RankSum>> connect_ranks(const Connection& connection, const Config& config,
                                                    int max_batch_tokens, CardThreads& threads,
                                                    std::span<const LocalRank> ranks) {
  const auto& connect_by = connection.nccl ? connect_by_nccl : connect_by_writes;
  return connect_by(connection, config, max_batch_tokens, threads, ranks);
}

std::string why_wrong(const Connection& connection, int num_ranks) {
  if (connection.nccl)
    return fmt::format("{} {}: NCCL {} delivers wrong numbers",
                       connection.links ? "--nodes" : "--tensor-parallel-size", num_ranks,
                       connection.nccl->version());
  return fmt::format(
      "--tensor-parallel-size {}: the driver reports that the GPUs can write into each other's memory, but "
      "the writes do not arrive; IOMMU and ACS settings of the machine can cause that",
      num_ranks);
}

std::vector<KernelChoice> sum_choices(const Connection& connection, const KernelChoice& of, int num_ranks,
                                      bool have_own_sequences) {
  std::vector<KernelChoice> rows;
  KernelChoice sum = of;
  sum.reason = connection.nccl ? "docs/decisions/0018" : "docs/decisions/0017";
  sum.check.clear();
  const auto add = [&](std::string_view how, int from_rows, int to_rows) {
    sum.kernel = fmt::format("sum over {} {}: {}", num_ranks, connection.links ? "nodes" : "ranks", how);
    sum.from_rows = from_rows;
    sum.to_rows = to_rows;
    rows.push_back(sum);
  };
  const int most_words = tagged_rows(num_ranks);
  if (connection.nccl) {
    add(fmt::format("moved by NCCL {}, added by rank", connection.nccl->version()), 1, kAnyRows);
  } else if (have_own_sequences && of.operation == Operation::kExpertsDown) {
    // Ranks with their own sequences normalise only their own rows, so these sums compute no norms.
    add("words with tags, to all", 1, most_words);
    add("terms to the owners of rows, their sums to all", most_words + 1, kAnyRows);
  } else {
    add("words with tags, to all", 1, kOwnNorms);
    add("words with tags, to all, and the next norm", kOwnNorms + 1, most_words);
    add("terms to the owners of rows, their norms to all", most_words + 1, kAnyRows);
  }
  return rows;
}

RankTraits rank_traits(const CudaOptions& own) {
  const std::shared_ptr<const Nccl> nccl = Nccl::load(own.nccl, own.interface);
  if (const std::string missing = why_no_device(); !missing.empty())
    throw InputError("--backend cuda: {}", missing);
  use_device(devices_of(own).front());
  const Target target = target_of(device_caps(), own);
  const int prompts = own.prompt_activations ? static_cast<int>(*own.prompt_activations) + 1 : 0;
  return {fmt::format("cuda {}, {} KB, {} SMs, prompts {}, graphs {}", name(target.family),
                      kilobytes(target.budget), target.num_multiprocessors, prompts,
                      own.has_graphs ? "on" : "off"),
          nccl->version()};
}

GroupId new_group(const CudaOptions& own) { return Nccl::load(own.nccl, own.interface)->new_group(); }

}  // namespace nibble::cuda
