#include "setup/start/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace nibble {
namespace {

using testing::HasSubstr;

std::string refusal(const Settings& settings) {
  return error_of([&] { resolve(settings); });
}

Settings on_backend(const char* name) {
  Settings settings;
  settings.backend = name;
  return settings;
}

TEST(Resolve, SettingsBecomeTheOptionsOfTheBackend) {
  Settings settings = on_backend("cpu");
  settings.isa = "portable";
  settings.experts_activations = "float";
  settings.fp8_layers = "qkv,lm_head";
  settings.mxfp4_layers = "moe,o";
  settings.kv_dtype = "fp8";
  settings.max_batch_tokens = 99;
  settings.threads = 3;
  settings.context = 1000;
  settings.max_sequences = 5;
  settings.itl_target = 25;  // milliseconds
  settings.prefix_cache = false;
  settings.require = "experts=mxfp4";
  const ResolvedSettings setup = resolve(settings);
  EXPECT_EQ(setup.backend->name, "cpu");
  EXPECT_EQ(setup.own.cpu.isa, "portable");
  EXPECT_EQ(setup.own.cpu.expert_activations, cpu::ExpertActivations::kFloat);
  EXPECT_EQ(setup.options.dense.qkv, Format::kE4m3);
  EXPECT_EQ(setup.options.dense.attention_output, Format::kMxfp4);
  EXPECT_EQ(setup.options.dense.unembedding, Format::kE4m3);
  EXPECT_EQ(setup.options.kv_format, Format::kE4m3);
  EXPECT_EQ(setup.options.max_batch_tokens, 99);
  EXPECT_EQ(setup.options.num_threads, 3);
  EXPECT_EQ(setup.threads, 3);
  EXPECT_EQ(setup.context, 1000);
  EXPECT_EQ(setup.max_sequences, 5);
  EXPECT_DOUBLE_EQ(setup.itl_target, 0.025);
  EXPECT_FALSE(setup.shares_prefixes);
  ASSERT_EQ(setup.requirements.size(), 1u);
  EXPECT_EQ(setup.requirements.front().operation, "experts");
}

TEST(Resolve, DefaultsQuantiseNothingAndRunOnTheBestBackend) {
  const ResolvedSettings setup = resolve({});
  EXPECT_EQ(setup.backend, &best_backend());
  EXPECT_EQ(setup.options.dense, DenseFormats{});
  EXPECT_EQ(setup.options.kv_format, Format::kBf16);
  EXPECT_EQ(setup.own.cpu.expert_activations, cpu::ExpertActivations::kDefault);
  EXPECT_TRUE(setup.shares_prefixes);
  EXPECT_TRUE(setup.requirements.empty());
}

TEST(Resolve, OnACpuSequencesThatShareAStepHaveFewPromptRows) {
  EXPECT_EQ(resolve(on_backend("cpu")).max_shared_rows, 128);
}

TEST(Resolve, ATargetForTheTimeBetweenTokensReplacesTheDefaultLimitOfRows) {
  Settings settings;
  const int rows = best_backend().making.batch_sizes({}).max_rows_with_answers;
  EXPECT_EQ(resolve(settings).max_rows_with_answers, rows);
  for (const double target : {0.0, 25.0}) {
    settings.itl_target = target;
    EXPECT_EQ(resolve(settings).max_rows_with_answers, 0) << target;
  }
}

TEST(Resolve, WrongFlagsAreRefusedBeforeAModelIsOpened) {
  EXPECT_THAT(refusal(on_backend("tpu")), HasSubstr("cpu, reference"));
  Settings settings;
  settings.require = "attention=bf16";
  EXPECT_THAT(refusal(settings), HasSubstr("embed, rms_norm, qkv, append, attend"));
  settings = {};
  settings.mxfp4_layers = "qkv,ffn";
  EXPECT_THAT(refusal(settings), HasSubstr("moe, qkv, o, lm_head"));
  settings = on_backend("cpu");
  settings.isa = "no such instruction set";
  EXPECT_THAT(refusal(settings), HasSubstr("portable"));
  settings = on_backend("reference");
  settings.kv_dtype = "fp8";
  EXPECT_THAT(refusal(settings), HasSubstr("float32"));
  settings = on_backend("reference");
  settings.experts_activations = "int8";
  EXPECT_THAT(refusal(settings), HasSubstr("not supported by the backend reference"));
  settings = on_backend("cpu");
  settings.prompt_activations = "mxfp8";
  EXPECT_THAT(refusal(settings), HasSubstr("--prompt-activations is only for GPUs, and the backend is cpu"));
  settings.prompt_activations = "bf16";  // the default
  EXPECT_EQ(refusal(settings), "accepted");
  settings.graphs = false;
  EXPECT_THAT(refusal(settings), HasSubstr("--no-graphs is only for GPUs, and the backend is cpu"));
}

TEST(Resolve, AGpuHasGraphsUnlessTheyAreTurnedOff) {
  if (all_backends().front().name != "cuda") GTEST_SKIP() << "a program without CUDA";
  Settings settings = on_backend("cuda");
  EXPECT_TRUE(resolve(settings).own.cuda.has_graphs);
  settings.graphs = false;
  EXPECT_FALSE(resolve(settings).own.cuda.has_graphs);
}

TEST(Resolve, GpusShareAModelInTheRequestedParts) {
  Settings settings = on_backend("cpu");
  settings.tensor_parallel_size = 1;  // the default
  EXPECT_EQ(refusal(settings), "accepted");
  settings.tensor_parallel_size = 2;
  EXPECT_THAT(refusal(settings),
              HasSubstr("--tensor-parallel-size is only for GPUs, and the backend is cpu"));
  if (all_backends().front().name != "cuda") GTEST_SKIP() << "a program without CUDA";
  const auto parts_of = [](const Settings& asked) { return resolve(asked).own.cuda.parts; };
  settings = on_backend("cuda");
  EXPECT_EQ(parts_of(settings), (std::vector<int>{1}));
  settings.gpus = "2";
  EXPECT_EQ(parts_of(settings), (std::vector<int>{1}));
  EXPECT_EQ(resolve(settings).own.cuda.gpus, (std::vector<int>{2}));
  settings.gpus = "0,2,3";
  EXPECT_EQ(parts_of(settings), (std::vector<int>{1, 1, 1}));
  settings.tensor_parallel_size = 2;
  EXPECT_THAT(refusal(settings), HasSubstr("--gpus 0,2,3: 3 GPUs, but --tensor-parallel-size says 2"));
  settings.gpus = "0,,1";
  EXPECT_THAT(refusal(settings), HasSubstr("--gpus '0,,1': expected GPU indices"));
  settings.gpus.reset();
  EXPECT_EQ(parts_of(settings), (std::vector<int>{1, 1}));
  settings.tensor_split = "3,1";
  EXPECT_EQ(parts_of(settings), (std::vector<int>{3, 1}));
  settings.tensor_split = "3,0";
  EXPECT_THAT(refusal(settings), HasSubstr("--tensor-split '3,0': expected whole numbers from 1 to 1000"));
  settings.tensor_split = "3,1,1";
  EXPECT_THAT(refusal(settings),
              HasSubstr("--tensor-parallel-size 2: 2 GPUs, but --tensor-split has parts for 3"));
}

// Returns settings of the first of two nodes, with a secret that is long enough.
Settings first_of_two(const char* backend) {
  Settings settings = on_backend(backend);
  settings.nodes = 2;
  settings.node_rank = 0;
  settings.head = "127.0.0.1:7000";
  setenv("NIBBLE_SECRET", "a secret of some bytes", 1);
  return settings;
}

TEST(Resolve, NodesHaveAGpuEachAndFindEachOtherOverTheHeadsInterface) {
  EXPECT_THAT(refusal(first_of_two("reference")),
              HasSubstr("--nodes 2: the backend reference runs on one machine"));
  Settings settings = first_of_two("cpu");
  settings.nccl = "libnccl.so.2";
  EXPECT_EQ(refusal(settings), "--nccl is only for GPUs, and the backend is cpu");
  if (all_backends().front().name != "cuda") GTEST_SKIP() << "a program without CUDA";
  settings = first_of_two("cuda");
  settings.tensor_split = "3,1";
  settings.gpus = "2";
  settings.nccl = "libnccl.so.2";
  const cuda::CudaOptions own = resolve(settings).own.cuda;
  EXPECT_EQ(own.parts, (std::vector<int>{3, 1}));
  EXPECT_EQ(own.node_rank, 0);
  EXPECT_EQ(own.gpus, (std::vector<int>{2}));
  EXPECT_EQ(own.nccl, "libnccl.so.2");
  EXPECT_EQ(own.interface, "lo");
  settings.gpus = "2,3";
  EXPECT_THAT(refusal(settings), HasSubstr("--nodes 2: only one GPU per machine is supported"));
  settings.gpus.reset();
  settings.tensor_parallel_size = 2;
  EXPECT_THAT(refusal(settings), HasSubstr("--nodes 2: only one GPU per machine is supported"));
  settings = on_backend("cuda");
  settings.nccl = "libnccl.so.2";
  EXPECT_THAT(refusal(settings), HasSubstr("--nccl needs --tensor-parallel-size, --gpus or --nodes"));
  settings.tensor_parallel_size = 2;
  EXPECT_TRUE(resolve(settings).own.cuda.requests_nccl());
}

TEST(Resolve, FlagsOfNodesNeedNodes) {
  Settings settings = on_backend("cpu");
  settings.node_rank = 0;
  EXPECT_EQ(refusal(settings), "--node-rank needs --nodes N");
  settings = on_backend("cpu");
  settings.head = "127.0.0.1:7000";
  EXPECT_EQ(refusal(settings), "--head needs --nodes N");
  settings = on_backend("cpu");
  settings.secret_file = "secret";
  EXPECT_EQ(refusal(settings), "--secret-file needs --nodes N");
}

TEST(Resolve, NodesNeedARankAndAHeadAndDraftWithoutAModel) {
  Settings settings = first_of_two("cpu");
  EXPECT_EQ(refusal(settings), "accepted");
  settings.head.reset();
  EXPECT_THAT(refusal(settings), HasSubstr("--nodes 2: each node needs --node-rank R, and --head"));
  settings = first_of_two("cpu");
  settings.node_rank = 2;
  EXPECT_EQ(refusal(settings), "--node-rank 2: 2 nodes are numbered from 0 to 1");
  settings = first_of_two("cpu");
  settings.speculate = "model=tiny";
  EXPECT_THAT(refusal(settings), HasSubstr("--nodes 2: draft heads and draft models are not supported"));
}

TEST(Resolve, WholeExpertsAreForSeveralNodesOrGpus) {
  Settings settings = on_backend("cpu");
  settings.expert_parallel = true;
  const std::string several = "--expert-parallel needs --nodes, or several GPUs (--tensor-parallel-size)";
  EXPECT_EQ(refusal(settings), several);
  if (all_backends().front().name != "cuda") GTEST_SKIP() << "a program without CUDA";
  settings = on_backend("cuda");
  settings.expert_parallel = true;
  EXPECT_EQ(refusal(settings), several);
  settings.tensor_split = "3,1";
  EXPECT_TRUE(resolve(settings).own.cuda.have_whole_experts);
  settings.expert_parallel = false;
  EXPECT_FALSE(resolve(settings).own.cuda.have_whole_experts);
  settings = first_of_two("cuda");
  settings.expert_parallel = true;
  EXPECT_TRUE(resolve(settings).own.cuda.have_whole_experts);
}

TEST(Resolve, SequencesOfTheirOwnAreForSeveralGpusOfOneMachine) {
  Settings settings = on_backend("cpu");
  settings.data_parallel_attention = true;
  const std::string several = "--data-parallel-attention needs several GPUs (--tensor-parallel-size)";
  EXPECT_EQ(refusal(settings), several);
  settings = first_of_two("cpu");
  settings.data_parallel_attention = true;
  EXPECT_THAT(refusal(settings), HasSubstr("--data-parallel-attention is not supported with --nodes"));
  if (all_backends().front().name != "cuda") GTEST_SKIP() << "a program without CUDA";
  settings = on_backend("cuda");
  settings.data_parallel_attention = true;
  EXPECT_EQ(refusal(settings), several);
  settings.tensor_parallel_size = 2;
  EXPECT_TRUE(resolve(settings).own.cuda.have_own_sequences);
  EXPECT_EQ(resolve(settings).options.num_kv_caches, 2);
  settings.data_parallel_attention = false;
  EXPECT_EQ(resolve(settings).options.num_kv_caches, 1);
}

Settings with_layers(const std::string& fp8, const std::string& mxfp4) {
  Settings settings;
  settings.fp8_layers = fp8;
  settings.mxfp4_layers = mxfp4;
  return settings;
}

TEST(Resolve, ALayerThatTwoFlagsNameIsRefused) {
  EXPECT_THAT(refusal(with_layers("all", "lm_head")), HasSubstr("both name lm_head"));
  // "moe" means the experts, which --fp8-layers does not change.
  EXPECT_EQ(refusal(with_layers("all", "moe")), "accepted");
}

TEST(Resolve, UnquantisedLeavesOutTheFormatsThatFlagsAskFor) {
  Settings settings = on_backend("cpu");
  settings.fp8_layers = "all";
  settings.kv_dtype = "fp8";
  EXPECT_EQ(unquantised(resolve(settings)).own.cpu.expert_activations, cpu::ExpertActivations::kDefault);
  settings.experts_activations = "int8";
  const ResolvedSettings plain = unquantised(resolve(settings));
  EXPECT_EQ(plain.options.dense, DenseFormats{});
  EXPECT_EQ(plain.options.kv_format, Format::kBf16);
  EXPECT_EQ(plain.own.cpu.expert_activations, cpu::ExpertActivations::kFloat);
}

}  // namespace
}  // namespace nibble
