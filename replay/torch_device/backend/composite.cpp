#include "composite.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

#include <tuple>

namespace asmevo::torch_device {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

bool is_given(const OptionalTensor& tensor) {
    return tensor && tensor->defined();
}

Tensor or_zeros(const OptionalTensor& tensor, const Tensor& like) {
    return is_given(tensor) ? *tensor : at::zeros_like(like);
}

// Dropout: the mask is drawn from the device's generator, not from the CPU's.

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
    if (input.numel() == 0 || !train.value_or(true)) {
        return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
    }
    Tensor mask = at::empty_like(input, input.options().dtype(at::kBool)).bernoulli_(1 - p);
    return {p == 1 ? at::zeros_like(input) : input * mask * (1 / (1 - p)), mask};
}

std::tuple<Tensor, Tensor> fused_dropout(const Tensor& input, double keep,
                                         std::optional<at::Generator> generator) {
    Tensor mask = at::empty_like(input, input.options().dtype(at::kByte)).bernoulli_(keep, generator);
    return {input * mask * (1 / keep), mask};
}

Tensor masked_scale(const Tensor& input, const Tensor& mask, double scale) {
    return input * mask * scale;
}

// Matrix products of half precision that give float.

Tensor mm(const Tensor& a, const Tensor& b, at::ScalarType type) {
    return at::mm(a.to(type), b.to(type));
}
Tensor& mm_out(const Tensor& a, const Tensor& b, at::ScalarType type, Tensor& out) {
    return at::mm_out(out, a.to(type), b.to(type));
}
Tensor bmm(const Tensor& a, const Tensor& b, at::ScalarType type) {
    return at::bmm(a.to(type), b.to(type));
}
Tensor& bmm_out(const Tensor& a, const Tensor& b, at::ScalarType type, Tensor& out) {
    return at::bmm_out(out, a.to(type), b.to(type));
}
Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b, at::ScalarType type,
             const at::Scalar& beta, const at::Scalar& alpha) {
    return at::addmm(c.to(type), a.to(type), b.to(type), beta, alpha);
}
Tensor& addmm_out(const Tensor& c, const Tensor& a, const Tensor& b, at::ScalarType type,
                  const at::Scalar& beta, const at::Scalar& alpha, Tensor& out) {
    return at::addmm_out(out, c.to(type), a.to(type), b.to(type), beta, alpha);
}
Tensor baddbmm(const Tensor& c, const Tensor& a, const Tensor& b, at::ScalarType type,
               const at::Scalar& beta, const at::Scalar& alpha) {
    return at::baddbmm(c.to(type), a.to(type), b.to(type), beta, alpha);
}
Tensor& baddbmm_out(const Tensor& c, const Tensor& a, const Tensor& b, at::ScalarType type,
                    const at::Scalar& beta, const at::Scalar& alpha, Tensor& out) {
    return at::baddbmm_out(out, c.to(type), a.to(type), b.to(type), beta, alpha);
}

// Products of FP8 matrices with a scale for each matrix, or for each row and column. The CPU's takes no FNUZ formats.

Tensor scaled_mm(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                 const OptionalTensor& bias, const OptionalTensor& scale_result,
                 std::optional<at::ScalarType> type, bool) {
    TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0),
                "_scaled_mm: matrices of ", a.sizes(), " and ", b.sizes(), " cannot be multiplied");
    const bool whole = scale_a.numel() == 1 && scale_b.numel() == 1;
    const bool by_row = scale_a.sizes() == at::IntArrayRef{a.size(0), 1} &&
                        scale_b.sizes() == at::IntArrayRef{1, b.size(1)};
    TORCH_CHECK_NOT_IMPLEMENTED(
        (whole || by_row) && scale_a.scalar_type() == at::kFloat && scale_b.scalar_type() == at::kFloat,
        "_scaled_mm on the emulated device takes float scales, one a matrix or one a row and column");
    const auto scale = [&](const Tensor& given) { return whole ? given.reshape({1}) : given; };
    Tensor product = at::mm(a.to(at::kFloat), b.to(at::kFloat)) * scale(scale_a) * scale(scale_b);
    if (is_given(bias)) {
        product = product + bias->to(at::kFloat);
    }
    const at::ScalarType result = type.value_or(a.scalar_type());
    const bool is_fp8 = at::isFloat8Type(result);
    return (is_fp8 && is_given(scale_result) ? product * *scale_result : product).to(result);
}
Tensor& scaled_mm_out(const Tensor& a, const Tensor& b, const Tensor& scale_a, const Tensor& scale_b,
                      const OptionalTensor& bias, const OptionalTensor& scale_result,
                      std::optional<at::ScalarType> type, bool fast, Tensor& out) {
    const Tensor result = scaled_mm(a, b, scale_a, scale_b, bias, scale_result,
                                    type.value_or(out.scalar_type()), fast);
    return out.resize_(result.sizes()).copy_(result);
}

// Recurrent cells. The workspace is what the backward pass needs; its contents are ours to choose.

Tensor with_bias(const Tensor& gates, const OptionalTensor& bias) {
    return is_given(bias) ? gates + *bias : gates;
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                             const Tensor& cx, const OptionalTensor& input_bias,
                                             const OptionalTensor& hidden_bias) {
    const auto gates =
        (with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias)).chunk(4, 1);
    const Tensor input = gates[0].sigmoid();
    const Tensor forget = gates[1].sigmoid();
    const Tensor cell = gates[2].tanh();
    const Tensor output = gates[3].sigmoid();
    Tensor cy = forget * cx + input * cell;
    return {output * cy.tanh(), cy, at::cat({input, forget, cell, output}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy,
                                                      const OptionalTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy,
                                                      const Tensor& workspace, bool has_bias) {
    if (!is_given(grad_hy) && !is_given(grad_cy)) {
        return {};
    }
    const auto gates = workspace.chunk(4, 1);
    const Tensor &input = gates[0], &forget = gates[1], &cell = gates[2], &output = gates[3];
    const Tensor grad_h = or_zeros(grad_hy, cy);
    const Tensor tanh_cy = cy.tanh();
    const Tensor grad_c = or_zeros(grad_cy, cy) + grad_h * output * (1 - tanh_cy * tanh_cy);
    Tensor grad_gates = at::cat({grad_c * cell * input * (1 - input),
                                 grad_c * cx * forget * (1 - forget),
                                 grad_c * input * (1 - cell * cell),
                                 grad_h * tanh_cy * output * (1 - output)},
                                1);
    return {grad_gates, grad_c * forget, has_bias ? grad_gates.sum(0) : Tensor()};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                    const Tensor& hx, const OptionalTensor& input_bias,
                                    const OptionalTensor& hidden_bias) {
    const auto input = with_bias(input_gates, input_bias).chunk(3, 1);
    const auto hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
    const Tensor reset = (input[0] + hidden[0]).sigmoid();
    const Tensor update = (input[1] + hidden[1]).sigmoid();
    const Tensor fresh = (input[2] + reset * hidden[2]).tanh();
    return {fresh + update * (hx - fresh), at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy,
                                                                     const Tensor& workspace,
                                                                     bool has_bias) {
    const auto saved = workspace.chunk(5, 1);
    const Tensor &reset = saved[0], &update = saved[1], &fresh = saved[2], &hx = saved[3];
    const Tensor grad_update = grad_hy * (hx - fresh) * update * (1 - update);
    const Tensor grad_fresh = grad_hy * (1 - update) * (1 - fresh * fresh);
    const Tensor grad_reset = grad_fresh * saved[4] * reset * (1 - reset);
    Tensor grad_input = at::cat({grad_reset, grad_update, grad_fresh}, 1);
    Tensor grad_hidden = at::cat({grad_reset, grad_update, grad_fresh * reset}, 1);
    return {grad_input, grad_hidden, grad_hy * update, has_bias ? grad_input.sum(0) : Tensor(),
            has_bias ? grad_hidden.sum(0) : Tensor()};
}

// Which library computes a CTC loss: none of the GPU's.

bool no_ctc_library(const Tensor&, const Tensor&, at::IntArrayRef, at::IntArrayRef, int64_t) {
    return false;
}
bool no_ctc_library_for_lengths(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                int64_t) {
    return false;
}

}  // namespace

void register_composites(torch::Library& aten) {
    aten.impl("native_dropout", native_dropout);
    aten.impl("_fused_dropout", fused_dropout);
    aten.impl("_masked_scale", masked_scale);
    aten.impl("mm.dtype", mm);
    aten.impl("mm.dtype_out", mm_out);
    aten.impl("bmm.dtype", bmm);
    aten.impl("bmm.dtype_out", bmm_out);
    aten.impl("addmm.dtype", addmm);
    aten.impl("addmm.dtype_out", addmm_out);
    aten.impl("baddbmm.dtype", baddbmm);
    aten.impl("baddbmm.dtype_out", baddbmm_out);
    aten.impl("_scaled_mm", scaled_mm);
    aten.impl("_scaled_mm.out", scaled_mm_out);
    aten.impl("_thnn_fused_lstm_cell", lstm_cell);
    aten.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
    aten.impl("_thnn_fused_gru_cell", gru_cell);
    aten.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
    for (const char* name : {"_use_cudnn_ctc_loss", "_use_miopen_ctc_loss"}) {
        aten.impl(name, no_ctc_library);
    }
    for (const char* name : {"_use_cudnn_ctc_loss.Tensor", "_use_miopen_ctc_loss.Tensor"}) {
        aten.impl(name, no_ctc_library_for_lengths);
    }
}

}  // namespace asmevo::torch_device
