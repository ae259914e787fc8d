// Upper confidence bounds of a mean.
#pragma once

#include <span>

namespace heddle::learning {

/// The quantile of Student's t distribution with `freedom` degrees of freedom for a probability
/// above one half.
double student_quantile(double probability, double freedom);

/// The variance of a few numbers, and prior knowledge of such variances.
struct VariancePrior {
  double variance = 0;
  double weight = 4;  ///< degrees of freedom that the prior counts for
};

/// A one-sided upper bound of the mean of the distribution of `sample`: mean + t s / sqrt(n). The
/// variance s^2 is the weighted mean of the sample's and the prior's (the posterior under a scaled
/// inverse chi-square prior; Gelman et al., "Bayesian Data Analysis", section 2.6), because a few
/// equal numbers do not show that all are equal.
double mean_bound(std::span<const double> sample, const VariancePrior& prior, double confidence);

double mean_of(std::span<const double> sample);
/// Sum of squared differences from the mean.
double squared_deviations(std::span<const double> sample);

}  // namespace heddle::learning
