(* The discrete Laplace and the discrete Gaussian law: of noise that is moved, and normalised. *)
From Coq Require Import ZArith List Lia Reals Lra.
From Counton Require Import Definitions Vectors Sums.
Import ListNotations.
Open Scope R_scope.

Lemma laplace_positive scales z : 0 < laplace scales z.
Proof. apply exp_pos. Qed.
Lemma gauss_positive variances z : 0 < gauss variances z.
Proof. apply exp_pos. Qed.

(* Laplace: the triangle inequality. *)
Lemma distance_add scales : forall z u, positive scales ->
  distance scales (add z u) <= distance scales z + distance scales u.
Proof.
  induction scales as [|b scales IH]; intros z u Hb; simpl; [lra|].
  assert (0 < b) as Hb0 by (apply Hb; now left).
  assert (positive scales) as Hbs by (intros c Hc; apply Hb; now right).
  assert (forall v, 0 <= distance scales v) as H0.
  { clear - Hbs. induction scales as [|b scales IH]; intros v; simpl; [lra|].
    destruct v as [|a v]; [lra|]. apply Rplus_le_le_0_compat.
    - apply Rmult_le_pos; [apply IZR_le; lia|]. left. apply Rinv_0_lt_compat. apply Hbs. now left.
    - apply IH. intros c Hc. apply Hbs. now right. }
  destruct z as [|a z], u as [|c u]; simpl;
    try (pose proof (H0 z)); try (pose proof (H0 u));
    try (assert (forall k, 0 <= IZR (Z.abs k) / b) as Hk by
      (intros; apply Rmult_le_pos; [apply IZR_le; lia | left; now apply Rinv_0_lt_compat]));
    try (pose proof (Hk a)); try (pose proof (Hk c)); try lra.
  specialize (IH z u Hbs).
  assert (IZR (Z.abs (a + c)) / b <= IZR (Z.abs a) / b + IZR (Z.abs c) / b) as HT.
  { unfold Rdiv. rewrite <- Rmult_plus_distr_r, <- plus_IZR.
    apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat | apply IZR_le; lia]. }
  lra.
Qed.

Lemma distance_times scales : forall k u, distance scales (times k u) = IZR (Z.abs k) * distance scales u.
Proof.
  induction scales as [|b scales IH]; intros k [|a u]; try (simpl; lra).
  rewrite times_cons. cbn [distance]. rewrite IH, Z.abs_mul, mult_IZR. unfold Rdiv. ring.
Qed.

Lemma laplace_moved scales z u epsilon : positive scales -> distance scales u <= epsilon ->
  laplace scales z <= exp epsilon * laplace scales (add z u).
Proof.
  intros Hb H. unfold laplace. rewrite <- exp_plus. apply exp_le.
  pose proof (distance_add scales z u Hb). lra.
Qed.

(* Gaussian: a whole order of the ratio of noise to moved noise is moved noise again. *)
Lemma energy_identity variances : forall z u (a : Z), positive variances -> length z = length u ->
  IZR a * energy variances z + (1 - IZR a) * energy variances (add z u) =
  energy variances (add z (times (1 - a) u)) - IZR a * (IZR a - 1) * energy variances u.
Proof.
  induction variances as [|v variances IH]; intros z u a Hv HL; [simpl; ring|].
  destruct z as [|x z], u as [|d u]; simpl in HL; try discriminate; [simpl; ring|].
  injection HL as HL.
  assert (0 < v) as Hv0 by (apply Hv; now left).
  assert (positive variances) as Hvs by (intros c Hc; apply Hv; now right).
  specialize (IH z u a Hvs HL).
  rewrite times_cons, !add_cons. cbn [energy].
  transitivity ((IZR a * (IZR (x * x) / (2 * v)) + (1 - IZR a) * (IZR ((x + d) * (x + d)) / (2 * v)))
    + (IZR a * energy variances z + (1 - IZR a) * energy variances (add z u))); [ring|].
  rewrite IH, !mult_IZR, !plus_IZR, !mult_IZR, !minus_IZR. field. lra.
Qed.

Lemma energy_times variances : forall k u, energy variances (times k u) = IZR (k * k) * energy variances u.
Proof.
  induction variances as [|v variances IH]; intros k [|a u]; try (simpl; lra).
  rewrite times_cons. cbn [energy]. rewrite IH, !mult_IZR. unfold Rdiv. ring.
Qed.

(* Sums of e^(-|z| / b) over finite sets of integers are bounded, *)
Lemma geometric_sums q n : 0 <= q < 1 -> total (fun k => q ^ k) (seq 0 n) <= / (1 - q).
Proof.
  intros Hq.
  assert (total (fun k => q ^ k) (seq 0 n) * (1 - q) = 1 - q ^ n) as E.
  { induction n as [|n IH]; [unfold total; simpl; lra|].
    rewrite seq_S, total_app, Rmult_plus_distr_r, IH. unfold total. simpl. ring. }
  apply Rmult_le_reg_r with (1 - q); [lra|]. rewrite E, Rinv_l by lra.
  assert (0 <= q ^ n) by (apply pow_le; lra). lra.
Qed.

Lemma exp_nat c n : exp (- (INR n * c)) = exp (- c) ^ n.
Proof.
  induction n as [|n IH].
  - simpl. rewrite Rmult_0_l, Ropp_0, exp_0. reflexivity.
  - rewrite S_INR. simpl. rewrite <- IH, <- exp_plus. f_equal. ring.
Qed.

Definition bounded {A} (weight : A -> R) (set : A -> Prop) : Prop :=
  exists c, 0 <= c /\ forall F, NoDup F -> (forall z, In z F -> set z) -> total weight F <= c.

Lemma integers_bounded b : 0 < b -> bounded (fun z => exp (- (IZR (Z.abs z) / b))) (fun _ => True).
Proof.
  intros Hb. set (q := exp (- (1 / b))).
  assert (0 < / b) as Hi by now apply Rinv_0_lt_compat.
  assert (0 <= q < 1) as Hq.
  { split; [left; apply exp_pos|]. assert (q < exp 0) as H by (apply exp_increasing; lra).
    now rewrite exp_0 in H. }
  assert (0 < / (1 - q)) as Hp by (apply Rinv_0_lt_compat; lra).
  exists (/ (1 - q) + / (1 - q)). split; [lra|]. intros F ND _.
  assert (exists n, forall z, In z F -> (Z.abs_nat z < n)%nat) as [n Hn].
  { clear ND. induction F as [|a F [n IH]]; [now exists 0%nat|].
    exists (S (Z.abs_nat a + n)). intros z [-> | Hz]; [lia|]. specialize (IH z Hz). lia. }
  set (half := fun sign => map (fun k => (sign * Z.of_nat k)%Z) (seq 0 n)).
  apply Rle_trans with (total (fun z => exp (- (IZR (Z.abs z) / b))) (half 1%Z ++ half (-1)%Z)).
  - apply total_incl; auto; [|intros; left; apply exp_pos].
    intros z Hz. specialize (Hn z Hz). apply in_app_iff.
    destruct (Z.le_gt_cases 0 z); [left | right];
      apply in_map_iff; exists (Z.abs_nat z); (split; [rewrite Zabs2Nat.id_abs; lia | apply in_seq; lia]).
  - rewrite total_app. apply Rplus_le_compat.
    all: unfold half; rewrite total_map;
      apply Rle_trans with (total (fun k => q ^ k) (seq 0 n)); [|now apply geometric_sums];
      apply total_le; intros k _; unfold q; rewrite <- exp_nat; apply exp_le, Ropp_le_contravar.
    + replace (Z.abs (1 * Z.of_nat k)) with (Z.of_nat k) by lia.
      rewrite <- INR_IZR_INZ. unfold Rdiv. lra.
    + replace (Z.abs (-1 * Z.of_nat k)) with (Z.of_nat k) by lia.
      rewrite <- INR_IZR_INZ. unfold Rdiv. lra.
Qed.

(* and so are products of such sums. *)
Lemma vectors_bounded (weights : list (Z -> R)) :
  (forall w, In w weights -> (forall z, 0 < w z) /\ bounded w (fun _ => True)) ->
  bounded (fun z => fold_right (fun p s => fst p (snd p) * s) 1 (combine weights z))
    (fun z => length z = length weights).
Proof.
  induction weights as [|w weights IH]; intros H.
  - exists 1. split; [lra|]. intros F ND HF. apply Rle_trans with (total (fun _ => 1) [[] : list Z]).
    + apply (total_incl (fun _ : list Z => 1)); auto; [|intros; lra].
      intros z Hz. specialize (HF z Hz). destruct z; [now left | discriminate].
    + unfold total. simpl. lra.
  - destruct (H w (or_introl eq_refl)) as [Hw [c [Hc B]]].
    destruct (IH (fun v h => H v (or_intror h))) as [d [Hd D]].
    set (rest := fun z => fold_right (fun p s => fst p (snd p) * s) 1 (combine weights z)).
    assert (forall z, 0 < rest z) as Hr.
    { assert (forall v, In v weights -> forall z, 0 < v z) as Hv by
        (intros v h; apply (H v (or_intror h))).
      clear - Hv. unfold rest. induction weights as [|v weights IH]; intros [|a z]; simpl; try lra.
      apply Rmult_lt_0_compat; [apply Hv; now left | apply IH; intros; apply Hv; now right]. }
    exists (c * d). split; [now apply Rmult_le_pos|]. intros F ND HF.
    set (heads := nodup Z.eq_dec (map (hd 0%Z) F)).
    set (tails := nodup (list_eq_dec Z.eq_dec) (map (@tl Z) F)).
    assert (NoDup heads) as Nh by apply NoDup_nodup.
    assert (NoDup tails) as Nt by apply NoDup_nodup.
    apply Rle_trans with (total w heads * total rest tails).
    + rewrite <- total_product.
      apply Rle_trans with (total (fun p => w (fst p) * rest (snd p))
        (map (fun z => (hd 0%Z z, tl z)) F)).
      * rewrite total_map. apply total_le. intros z Hz. specialize (HF z Hz).
        destruct z as [|a z]; [discriminate|]. right. reflexivity.
      * apply total_incl.
        -- apply map_NoDup; auto. intros x y Hx Hy E.
           pose proof (HF x Hx). pose proof (HF y Hy).
           destruct x, y; simpl in *; try discriminate. now injection E as -> ->.
        -- intros p Hp. apply in_map_iff in Hp as [z [<- Hz]].
           apply in_prod; apply nodup_In, in_map_iff; now exists z.
        -- intros p. left. now apply Rmult_lt_0_compat.
    + apply Rmult_le_compat.
      * apply total_nonneg. intros. left. apply Hw.
      * apply total_nonneg. intros. left. apply Hr.
      * now apply B.
      * apply D; auto. intros z Hz. apply nodup_In, in_map_iff in Hz as [y [<- Hy]].
        specialize (HF y Hy). destruct y; simpl in *; [discriminate | lia].
Qed.

Lemma mass_of_bounded weight set : bounded weight set -> exists m, mass weight set m.
Proof.
  intros [c [_ H]]. destruct (completeness
    (fun s => exists F, NoDup F /\ (forall z, In z F -> set z) /\ s = total weight F)) as [m Hm].
  - exists c. intros s [F [ND [HF ->]]]. auto.
  - exists 0, []. repeat split; [constructor | intros z []].
  - now exists m.
Qed.

Lemma bounded_ext {A} (v w : A -> R) (set : A -> Prop) : (forall z, set z -> v z <= w z) -> bounded w set -> bounded v set.
Proof.
  intros H [c [Hc B]]. exists c. split; auto. intros F ND HF.
  apply Rle_trans with (total w F); auto. apply total_le. auto.
Qed.

Lemma laplace_all scales : positive scales ->
  exists all, mass (laplace scales) (fun z => length z = length scales) all.
Proof.
  intros Hb. apply mass_of_bounded.
  pose (weights := map (fun b z => exp (- (IZR (Z.abs z) / b))) scales).
  assert (length scales = length weights) as L by (unfold weights; now rewrite map_length).
  rewrite L. apply bounded_ext with
    (fun z => fold_right (fun p s => fst p (snd p) * s) 1 (combine weights z)).
  - intros z _. right. unfold weights, laplace. clear Hb L weights. revert z.
    induction scales as [|b scales IH]; intros [|a z]; simpl; rewrite ?Ropp_0, ?exp_0; auto.
    rewrite <- IH, <- exp_plus. f_equal. lra.
  - apply vectors_bounded. intros w Hw. apply in_map_iff in Hw as [b [<- Hb']].
    split; [intros; apply exp_pos | apply integers_bounded; auto].
Qed.

Lemma gauss_all variances : positive variances ->
  exists all, mass (gauss variances) (fun z => length z = length variances) all.
Proof.
  intros Hv. destruct (laplace_all (map (fun v => 2 * v) variances)) as [all Hall].
  - intros b Hb. apply in_map_iff in Hb as [v [<- Hv']]. specialize (Hv v Hv'). lra.
  - apply mass_of_bounded. apply bounded_ext with (laplace (map (fun v => 2 * v) variances)).
    + intros z _. apply exp_le, Ropp_le_contravar. clear Hall all. revert z.
      induction variances as [|v variances IH]; intros [|a z]; simpl; try lra.
      apply Rplus_le_compat; [|apply IH; intros c Hc; apply Hv; now right].
      assert (0 < v) by (apply Hv; now left).
      apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; lra|]. apply IZR_le. nia.
    + rewrite map_length in Hall. exists all. split.
      * apply (mass_nonneg _ _ _ Hall).
      * intros F ND HF. apply (mass_upper _ _ _ _ Hall); auto.
Qed.

(* So probabilities exist, whatever the event, are unique, and that of every outcome is 1. *)
Section Probabilities.
  Variables (weight : list Z -> R) (N : nat) (mechanism : list Z -> list Z).
  Hypothesis weight_positive : forall z, 0 < weight z.
  Hypothesis finite : exists all, mass weight (fun z => length z = N) all.

  Lemma all_positive all : mass weight (fun z => length z = N) all -> 0 < all.
  Proof.
    intros H. apply (mass_positive weight weight_positive _ _ (repeat 0%Z N) H). apply repeat_length.
  Qed.

  Lemma probability_exists event : exists p, probability weight N mechanism event p.
  Proof.
    destruct finite as [all Hall].
    destruct (mass_exists weight (fun z => length z = N /\ event (mechanism z)) _ _ Hall) as [m Hm].
    - intros z [H _]. exact H.
    - exists (m / all), all, m. auto.
  Qed.

  Lemma probability_unique event p p' :
    probability weight N mechanism event p -> probability weight N mechanism event p' -> p = p'.
  Proof.
    intros [all [m [Ha [Hm ->]]]] [all' [m' [Ha' [Hm' ->]]]].
    now rewrite (mass_unique _ _ _ _ Ha Ha'), (mass_unique _ _ _ _ Hm Hm').
  Qed.

  Lemma probability_range event p : probability weight N mechanism event p -> 0 <= p <= 1.
  Proof.
    intros [all [m [Ha [Hm ->]]]]. pose proof (all_positive _ Ha).
    pose proof (mass_nonneg _ _ _ Hm).
    assert (m <= all) by (apply (mass_monotone _ _ _ _ _ Hm Ha); now intros z [H' _]).
    assert (0 < / all) by now apply Rinv_0_lt_compat. split; [apply Rmult_le_pos; lra|].
    apply Rmult_le_reg_r with all; auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
  Qed.

  Lemma probability_of_all p : probability weight N mechanism (fun _ => True) p -> p = 1.
  Proof.
    intros [all [m [Ha [Hm ->]]]]. pose proof (all_positive _ Ha).
    assert (m = all) as ->.
    { apply Rle_antisym.
      - apply (mass_monotone _ _ _ _ _ Hm Ha). now intros z [H' _].
      - apply (mass_monotone _ _ _ _ _ Ha Hm). auto. }
    field. lra.
  Qed.
End Probabilities.
