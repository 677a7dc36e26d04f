(* Whole orders of Renyi divergence with discrete Gaussian noise, carried from noise to transcripts. *)
From Coq Require Import ZArith List Lia Reals Lra.
From Counton Require Import Definitions Vectors Sums Laws Mechanism.
Import ListNotations.
Open Scope R_scope.

(* The order n + 1 of the ratio of noise to noise moved by u is noise moved by - n u. *)
Lemma gauss_order variances n z u : positive variances -> length z = length u ->
  gauss variances z ^ S n / gauss variances (add z u) ^ n =
  exp (INR (S n) * INR n * energy variances u) *
  gauss variances (add z (times (- Z.of_nat n) u)).
Proof.
  intros Hv HL. unfold gauss.
  pose proof (energy_identity variances z u (Z.of_nat (S n)) Hv HL) as E.
  replace (1 - Z.of_nat (S n))%Z with (- Z.of_nat n)%Z in E by lia.
  rewrite <- INR_IZR_INZ in E.
  assert (forall x k, exp x ^ k = exp (INR k * x)) as P.
  { intros x k. induction k as [|k IH]; [simpl; rewrite Rmult_0_l, exp_0; auto|].
    rewrite <- tech_pow_Rmult, IH, <- exp_plus. f_equal. rewrite S_INR. ring. }
  unfold Rdiv. rewrite !P, <- exp_Ropp, <- !exp_plus. f_equal.
  rewrite S_INR in *. lra.
Qed.

Section Core.
  Variables N T : nat.
  Variables exact exact' : list Z -> Z.
  Variable noise : list Z -> list Z -> Z.
  Variable shift : list Z -> list Z.
  Hypothesis shift_length : forall tau, length tau = T -> length (shift tau) = N.
  Hypothesis shifted : forall tau t z, length tau = T -> (t < T)%nat -> length z = N ->
    noise (firstn t tau) (add z (shift tau)) =
    (noise (firstn t tau) z + (exact (firstn t tau) - exact' (firstn t tau)))%Z.
  Variable variances : list R.
  Hypothesis variances_positive : positive variances.
  Variable rho : R.
  Hypothesis moves : forall tau, length tau = T -> energy variances (shift tau) <= rho.

  Notation released := (released T exact exact' noise).
  Notation moved := (moved T exact exact' noise shift).
  Let moved_length := moved_length N T exact exact' noise shift shift_length.
  Let same_transcript := same_transcript N T exact exact' noise shift shift_length shifted.
  Let moved_injective := moved_injective N T exact exact' noise shift shift_length shifted.

  (* Noise with which a world releases a transcript. *)
  Definition leading_to (j : Z) (tau : list Z) (z : list Z) : Prop :=
    length z = N /\ released j z = tau.

  Lemma order_moved j k n z : (Z.abs k = 1)%Z -> length z = N ->
    gauss variances z ^ S n / gauss variances (moved j k z) ^ n <=
    exp (INR (S n) * INR n * rho) * gauss variances (moved j (- Z.of_nat n * k) z).
  Proof.
    intros Hk Hz. set (s := shift (released j z)).
    assert (length s = N) as Hs by (apply shift_length, releases_length).
    unfold Mechanism.moved. fold s. rewrite gauss_order by (auto; now rewrite times_length, Hs).
    rewrite times_times. apply Rmult_le_compat_r; [left; apply gauss_positive|].
    apply exp_le. rewrite energy_times. replace (k * k)%Z with 1%Z by lia. rewrite Rmult_1_l.
    apply Rmult_le_compat_l; [apply Rmult_le_pos; apply pos_INR|].
    apply moves, releases_length.
  Qed.

  Lemma leading_to_moved j i tau F : NoDup F -> (forall z, In z F -> leading_to j tau z) ->
    NoDup (map (moved j i) F) /\
    forall y, In y (map (moved j i) F) -> leading_to (j + i) tau y.
  Proof.
    intros ND HF. split.
    - apply map_NoDup; auto. intros y z Hy Hz. apply moved_injective; now apply HF.
    - intros y Hy. apply in_map_iff in Hy as [z [<- Hz]]. destruct (HF z Hz) as [L E].
      split; [now apply moved_length | now rewrite same_transcript].
  Qed.

  (* What one world can release the other can. *)
  Lemma possible_in_both j k tau p q : mass (gauss variances) (leading_to j tau) p ->
    mass (gauss variances) (leading_to (j + k) tau) q -> 0 < p -> 0 < q.
  Proof.
    intros Hp Hq Hpos. destruct (Rlt_le_dec 0 q) as [|Hle]; auto. exfalso.
    assert (p <= 0); [|lra]. apply (mass_least _ _ _ _ Hp). intros [|z F] ND HF.
    - right. reflexivity.
    - exfalso. destruct (leading_to_moved j k tau [z]) as [_ L].
      + constructor; [intros [] | constructor].
      + intros y [<- | []]. apply HF. now left.
      + pose proof (mass_positive _ (gauss_positive variances) _ _ _ Hq (L _ (or_introl eq_refl))).
        lra.
  Qed.

  Lemma order_of_transcript j k n tau p q x : (Z.abs k = 1)%Z ->
    mass (gauss variances) (leading_to j tau) p ->
    mass (gauss variances) (leading_to (j + k) tau) q ->
    (forall F, NoDup F -> (forall z, In z F -> leading_to (j + - Z.of_nat n * k) tau z) ->
      total (gauss variances) F <= x) ->
    p ^ S n / q ^ n <= exp (INR (S n) * INR n * rho) * x.
  Proof.
    intros Hk Hp Hq Hx. set (c := exp (INR (S n) * INR n * rho)).
    assert (0 < c) as Hc by apply exp_pos.
    pose proof (mass_nonneg _ _ _ Hp) as Hp0. pose proof (mass_nonneg _ _ _ Hq) as Hq0.
    assert (0 <= x) as Hx0 by (apply (Hx []); [constructor | intros z []]).
    destruct (Rle_lt_dec p 0) as [Hle | Hpos].
    { replace p with 0 by lra. rewrite pow_i by lia. unfold Rdiv. rewrite Rmult_0_l.
      apply Rmult_le_pos; lra. }
    assert (0 < q) as Hqpos by (now apply (possible_in_both j k tau p q)).
    set (t := p / q).
    assert (0 < t) as Ht by (apply Rmult_lt_0_compat; [auto | now apply Rinv_0_lt_compat]).
    assert (0 < t ^ n) as Htn by now apply pow_lt.
    assert (0 < INR (S n)) as Hn by apply lt_0_INR, Nat.lt_0_succ.
    assert (0 <= INR n) as Hn0 by apply pos_INR.
    assert (p <= (c * x + INR n * t ^ S n * q) / (INR (S n) * t ^ n)) as H.
    { apply (mass_least _ _ _ _ Hp). intros F ND HF.
      destruct (leading_to_moved j k tau F ND HF) as [NQ LQ].
      destruct (leading_to_moved j (- Z.of_nat n * k) tau F ND HF) as [NR LR].
      pose proof (mass_upper _ _ _ _ Hq NQ LQ) as BQ. pose proof (Hx _ NR LR) as BR.
      rewrite total_map in BQ, BR.
      assert (INR (S n) * t ^ n * total (gauss variances) F -
        INR n * t ^ S n * total (fun z => gauss variances (moved j k z)) F <=
        c * total (fun z => gauss variances (moved j (- Z.of_nat n * k) z)) F) as B.
      { clear ND NQ LQ NR LR BQ BR. induction F as [|z F IH]; [unfold total; simpl; lra|].
        rewrite !total_cons. specialize (IH (fun y h => HF y (or_intror h))).
        destruct (HF z (or_introl eq_refl)) as [L _].
        pose proof (order_moved j k n z Hk L) as O. fold c in O.
        pose proof (quotient_above_line n (gauss variances z) (gauss variances (moved j k z)) t
          (Rlt_le _ _ (gauss_positive _ _)) (gauss_positive _ _) (Rlt_le _ _ Ht)). lra. }
      apply Rmult_le_reg_r with (INR (S n) * t ^ n); [now apply Rmult_lt_0_compat|].
      unfold Rdiv. rewrite Rmult_assoc, Rinv_l by (apply Rgt_not_eq; now apply Rmult_lt_0_compat).
      assert (INR n * t ^ S n * total (fun z => gauss variances (moved j k z)) F <=
        INR n * t ^ S n * q) by
        (apply Rmult_le_compat_l; auto; apply Rmult_le_pos; auto; apply pow_le; lra).
      assert (c * total (fun z => gauss variances (moved j (- Z.of_nat n * k) z)) F <= c * x) by
        (apply Rmult_le_compat_l; lra).
      lra. }
    assert (p * (INR (S n) * t ^ n) <= c * x + INR n * t ^ S n * q) as H'.
    { apply Rmult_le_compat_r with (r := INR (S n) * t ^ n) in H.
      - unfold Rdiv in H at 1. rewrite Rmult_assoc, Rinv_l in H by
          (apply Rgt_not_eq; now apply Rmult_lt_0_compat). lra.
      - left. now apply Rmult_lt_0_compat. }
    replace (p ^ S n / q ^ n) with (p * (INR (S n) * t ^ n) - INR n * t ^ S n * q); [lra|].
    unfold t. assert (q ^ n <> 0) by (apply pow_nonzero; lra).
    unfold Rdiv. rewrite S_INR, <- !tech_pow_Rmult, !Rpow_mult_distr, !pow_inv. field.
    split; [assumption | lra].
  Qed.

  Lemma renyi_from_to j k n (p q : list Z -> R) taus : (Z.abs k = 1)%Z ->
    (forall tau, probability (gauss variances) N (released j) (fun out => out = tau) (p tau)) ->
    (forall tau, probability (gauss variances) N (released (j + k)) (fun out => out = tau) (q tau)) ->
    NoDup taus ->
    total (fun tau => p tau ^ S n / q tau ^ n) taus <= exp (INR (S n) * INR n * rho).
  Proof.
    intros Hk Hp Hq ND. set (c := exp (INR (S n) * INR n * rho)).
    assert (0 < c) as Hc by apply exp_pos.
    destruct (Hp []) as [all [_ [Ha _]]].
    assert (0 < all) as Hall by (apply (all_positive _ N (gauss_positive variances) all Ha)).
    pose (m := fun tau => p tau ^ S n / q tau ^ n * (all / c)).
    assert (total m taus <= all) as H.
    { apply (masses_of_labels (gauss variances) (fun z => length z = N)
        (released (j + - Z.of_nat n * k)) m all Ha); auto.
      intros tau x HF.
      destruct (Hp tau) as [all1 [mp [Ha1 [Hmp Ep]]]]. destruct (Hq tau) as [all2 [mq [Ha2 [Hmq Eq]]]].
      rewrite (mass_unique _ _ _ _ Ha1 Ha) in Ep. rewrite (mass_unique _ _ _ _ Ha2 Ha) in Eq.
      pose proof (order_of_transcript j k n tau mp mq x Hk Hmp Hmq HF) as O. fold c in O.
      replace (m tau) with (mp ^ S n / mq ^ n / c).
      - apply Rmult_le_reg_r with c; auto. unfold Rdiv at 1. rewrite Rmult_assoc, Rinv_l by lra. lra.
      - unfold m. rewrite Ep, Eq. destruct (Req_dec mq 0) as [-> | Hne].
        + assert (mp = 0) as ->.
          { apply Rle_antisym; [|apply (mass_nonneg _ _ _ Hmp)].
            destruct (Rle_lt_dec mp 0) as [|Hm]; auto.
            pose proof (possible_in_both j k tau mp 0 Hmp Hmq Hm). lra. }
          unfold Rdiv. rewrite !Rmult_0_l, (pow_i (S n)) by lia. ring.
        + assert (mq ^ n <> 0) by (now apply pow_nonzero).
          assert (all ^ n <> 0) by (apply pow_nonzero; lra).
          unfold Rdiv. rewrite <- !tech_pow_Rmult, !Rpow_mult_distr, !pow_inv.
          field. repeat split; auto; lra. }
    unfold m in H.
    assert (total (fun tau => p tau ^ S n / q tau ^ n * (all / c)) taus =
      all / c * total (fun tau => p tau ^ S n / q tau ^ n) taus) as E.
    { unfold total. clear. induction taus as [|tau taus IH]; cbn [fold_right]; [ring|].
      rewrite IH. ring. }
    rewrite E in H. apply Rmult_le_reg_l with (all / c).
    - apply Rmult_lt_0_compat; auto. now apply Rinv_0_lt_compat.
    - replace (all / c * c) with all by (field; lra). exact H.
  Qed.
End Core.

Section Streams.
  Variables (T N : nat) (C : list Z -> list Z) (noise : nat -> list Z -> Z) (answer : list Z -> Z).
  Variables input input' : list Z -> Z.
  Hypothesis answer_additive : additive answer.
  Hypothesis B_C_is_A : factorised T N C noise answer.
  Variable variances : list R.
  Hypothesis variances_positive : positive variances.
  Variable rho : R.
  Hypothesis moves : forall tau, length tau = T ->
    energy variances (C (change T input input' tau)) <= rho.

  Lemma stream_renyi (p p' : list Z -> R) n taus :
    (forall tau, probability (gauss variances) N (stream T noise answer input)
      (fun out => out = tau) (p tau)) ->
    (forall tau, probability (gauss variances) N (stream T noise answer input')
      (fun out => out = tau) (p' tau)) ->
    NoDup taus ->
    total (fun tau => p tau ^ S n / p' tau ^ n) taus <= exp (INR (S n) * INR n * rho) /\
    total (fun tau => p' tau ^ S n / p tau ^ n) taus <= exp (INR (S n) * INR n * rho).
  Proof.
    intros Hp Hp' ND.
    pose proof (stream_shift_length T N C noise answer input input' B_C_is_A) as SL.
    pose proof (stream_shifted T N C noise answer input input' answer_additive B_C_is_A) as SH.
    assert (forall tau, probability (gauss variances) N
      (released T (exact_of answer input) (exact_of answer input') (noise_of noise) 0)
      (fun out => out = tau) (p tau)) as P.
    { intros tau. now apply (probability_ext _ _ _ _ _ _ (world_0 T noise answer input input')). }
    assert (forall tau, probability (gauss variances) N
      (released T (exact_of answer input) (exact_of answer input') (noise_of noise) 1)
      (fun out => out = tau) (p' tau)) as P'.
    { intros tau. now apply (probability_ext _ _ _ _ _ _ (world_1 T noise answer input input')). }
    split.
    - now apply (renyi_from_to N T _ _ _ _ SL SH variances variances_positive rho moves 0 1 n p p').
    - now apply (renyi_from_to N T _ _ _ _ SL SH variances variances_positive rho moves 1 (-1) n p' p).
  Qed.
End Streams.
