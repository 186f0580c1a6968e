// Names of the fields of a config.json of Hugging Face. A field in neither list is refused, because it may
// change what the model computes. Names are separated by spaces.
#pragma once

#include <string_view>

namespace nibble {

// Fields that parse_config() reads or checks.
inline constexpr std::string_view kReadFields{
    "architectures attention_bias eos_token_id experts_per_token head_dim hidden_act hidden_size "
    "intermediate_size layer_types max_position_embeddings model_type num_attention_heads num_experts "
    "num_experts_per_tok num_hidden_layers num_key_value_heads num_local_experts "
    "num_nextn_predict_layers quantization quantization_config rms_norm_eps rope_parameters rope_scaling "
    "rope_theta "
    "sliding_window swiglu_limit "
    "tie_word_embeddings vocab_size"};

// Fields that do not change the logits: training, generation, bookkeeping of transformers and other programs.
inline constexpr std::string_view kNeutralFields{
    "_attn_implementation _attn_implementation_autoset _commit_hash _experts_implementation "
    "_name_or_path add_cross_attention attention_dropout attn_implementation auto_map bad_words_ids "
    "begin_suppress_tokens bos_token_id chunk_size_feed_forward cross_attention_hidden_size "
    "decoder_start_token_id diversity_penalty do_sample dtype early_stopping "
    "encoder_no_repeat_ngram_size experts_implementation exponential_decay_length_penalty "
    "finetuning_task forced_bos_token_id forced_eos_token_id id2label initial_context_length "
    "initializer_range is_decoder is_encoder_decoder label2id length_penalty max_length min_length "
    "model_name name_or_path no_repeat_ngram_size num_beam_groups num_beams num_return_sequences "
    "output_attentions output_hidden_states output_router_logits output_scores pad_token_id prefix "
    "problem_type pruned_heads remove_invalid_values repetition_penalty return_dict "
    "return_dict_in_generate router_aux_loss_coef sep_token_id suppress_tokens task_specific_params "
    "temperature tf_legacy_loss tie_encoder_decoder tokenizer_class top_k top_p torch_dtype torchscript "
    "transformers.js_config transformers_version typical_p unsloth_fixed unsloth_version use_bfloat16 "
    "use_cache use_kernels"};

}  // namespace nibble
