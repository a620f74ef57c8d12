// Products: all that a step multiplies with weights goes through Multiply.
#include <algorithm>

#include "base/check.h"
#include "kernels/block_format.h"
#include "model/forward.h"

namespace ashlar::model {

// Codes of each product's x, where its weights are multiplied with codes. Neighbours share them.
void ForwardPass::EncodeInputs(std::span<const Product> products) {
  inputs_.assign(products.size(), nullptr);
  encodings_.clear();
  std::size_t rows = 0;
  std::size_t blocks = 0;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const Product& product = products[i];
    const kernels::PackedMatrix& w = product.linear->w;
    if (activations_ != Activations::kInt8 || !kernels::IsQuantised(w.dtype)) continue;
    const Product* const last = encodings_.empty() ? nullptr : &products[encodings_.back().product];
    const bool is_shared = last != nullptr && last->x == product.x && last->rows == product.rows &&
                           last->linear->w.k == w.k;
    if (!is_shared) {
      encodings_.push_back({i, rows, codes_.data() + blocks});
      rows += product.rows;
      blocks += kernels::ActivationBlocks(product.rows, w.k);
      ASHLAR_CHECK(blocks <= codes_.size(), "{} blocks of codes; there is room for {}", blocks,
                   codes_.size());
    }
    inputs_[i] = encodings_.back().out;
  }
  ForEachRow(rows, [&](std::size_t row) { EncodeRow(products, row); });
}

// One of all rows that are encoded.
void ForwardPass::EncodeRow(std::span<const Product> products, std::size_t row) {
  const auto after = std::ranges::upper_bound(encodings_, row, {}, &Encoding::first_row);
  const Encoding& encoding = *(after - 1);
  const Product& product = products[encoding.product];
  const std::size_t r = row - encoding.first_row;
  const kernels::ActivationPlace place =
      kernels::PlaceOfActivations(product.rows, product.linear->w.k, r);
  kernels_.encode_activations({.x = product.x + r * product.x_stride,
                               .k = product.linear->w.k,
                               .out = encoding.out + place.first,
                               .stride = place.stride});
}

// The products with each x in the order of its weights' columns. Neighbours share what is gathered.
std::span<const ForwardPass::Product> ForwardPass::InColumnOrder(
    std::span<const Product> products) {
  if (!config_.has_column_orders) return products;
  ordered_.assign(products.begin(), products.end());
  std::size_t used = 0;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const Product& product = products[i];
    const std::span<const std::uint32_t> order = product.linear->order;
    if (order.empty()) continue;
    if (i > 0 && products[i - 1].x == product.x && products[i - 1].rows == product.rows &&
        products[i - 1].linear->order.data() == order.data()) {
      ordered_[i].x = ordered_[i - 1].x;
      ordered_[i].x_stride = ordered_[i - 1].x_stride;
      continue;
    }
    float* const out = gathered_.data() + used;
    used += product.rows * order.size();
    ASHLAR_CHECK(used <= gathered_.size(), "{} gathered inputs; there is room for {}", used,
                 gathered_.size());
    ForEachRow(product.rows, [&](std::size_t row) {
      const float* const x = product.x + row * product.x_stride;
      float* const y = out + row * order.size();
      for (std::size_t c = 0; c < order.size(); ++c) y[c] = x[order[c]];
    });
    ordered_[i].x = out;
    ordered_[i].x_stride = order.size();
  }
  return ordered_;
}

// All products in one parallel region.
void ForwardPass::Multiply(std::span<const Product> products) {
  products = InColumnOrder(products);
  EncodeInputs(products);
  std::size_t panels = 0;
  for (const Product& product : products) panels += product.linear->w.panels();
  // Items of an even number of panels (kernels work on pairs), small enough to share out evenly.
  // The cut cannot change the bits: a panel's outputs depend on nothing but its weights and x.
  const std::size_t wanted = std::max<std::size_t>(1, panels / (8 * pool_.threads()));
  const std::size_t item_panels = std::min<std::size_t>((wanted + 3) / 4 * 4, 64);
  std::size_t items = 0;
  for (const Product& product : products) {
    items += (product.linear->w.panels() + item_panels - 1) / item_panels;
  }
  pool_.ParallelFor(items, [&](std::size_t item, std::size_t worker) {
    std::size_t rest = item;
    const Product* product = products.data();
    for (;; ++product) {
      const std::size_t own = (product->linear->w.panels() + item_panels - 1) / item_panels;
      if (rest < own) break;
      rest -= own;
    }
    const Linear& linear = *product->linear;
    const PanelProduct part = {.product = product,
                               .x = inputs_[product - products.data()],
                               .w = &linear.w,
                               .bias = linear.bias,
                               .y = product->y,
                               .panel_begin = rest * item_panels,
                               .panel_end = std::min(linear.w.panels(), (rest + 1) * item_panels)};
    linear.w.data != nullptr ? MultiplyPacked(part, worker) : MultiplyMapped(part, worker);
  });
}

void ForwardPass::MultiplyPacked(const PanelProduct& part, std::size_t worker) {
  const Product& product = *part.product;
  if (part.x != nullptr) {
    kernels_.matmul_codes({.w = part.w,
                           .x = part.x,
                           .rows = product.rows,
                           .bias = part.bias,
                           .y = part.y,
                           .y_stride = product.y_stride,
                           .panel_begin = part.panel_begin,
                           .panel_end = part.panel_end});
    return;
  }
  kernels_.matmul({.w = part.w,
                   .x = product.x,
                   .rows = product.rows,
                   .x_stride = product.x_stride,
                   .bias = part.bias,
                   .y = part.y,
                   .y_stride = product.y_stride,
                   .panel_begin = part.panel_begin,
                   .panel_end = part.panel_end,
                   .scratch = matmul_scratch_.data() + worker * sizes_.scratch});
}

// Packs a few panels at a time, each a small matrix of its own, and multiplies them as any others.
void ForwardPass::MultiplyMapped(const PanelProduct& part, std::size_t worker) {
  const kernels::PackedMatrix& whole = *part.w;
  const std::size_t row_bytes = *RowBytes(whole.dtype, whole.k);
  std::byte* const packed = panels_.data() + worker * (panels_.size() / pool_.threads());
  for (std::size_t panel = part.panel_begin; panel < part.panel_end; panel += kMappedPanels) {
    const std::size_t panels = std::min(kMappedPanels, part.panel_end - panel);
    const std::size_t first = panel * kernels::kPanelRows;
    const kernels::PackedMatrix w = {.dtype = whole.dtype,
                                     .n = std::min(whole.n - first, panels * kernels::kPanelRows),
                                     .k = whole.k,
                                     .data = packed};
    kernels::PackPanels({.dtype = w.dtype,
                         .n = w.n,
                         .k = w.k,
                         .rows = whole.rows + first * row_bytes,
                         .packed = packed,
                         .panel_begin = 0,
                         .panel_end = panels});
    MultiplyPacked({.product = part.product,
                    .x = part.x,
                    .w = &w,
                    .bias = part.bias != nullptr ? part.bias + first : nullptr,
                    .y = part.y + first,
                    .panel_begin = 0,
                    .panel_end = panels},
                   worker);
  }
}

}  // namespace ashlar::model
