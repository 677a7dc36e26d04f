(* Sums over finite sets, their suprema, and probabilities as quotients of suprema. *)
From Coq Require Import ZArith List Lia Reals Lra Permutation.
From Counton Require Import Definitions.
Import ListNotations.
Open Scope R_scope.

Lemma exp_le x y : x <= y -> exp x <= exp y.
Proof. intros [H | ->]; [left; now apply exp_increasing | apply Rle_refl]. Qed.

Lemma exp_at_least_1 x : 0 <= x -> 1 <= exp x.
Proof. intros H. rewrite <- exp_0. now apply exp_le. Qed.

Section Totals.
  Context {A : Type}.
  Variable weight : A -> R.

  Lemma total_cons z F : total weight (z :: F) = weight z + total weight F.
  Proof. reflexivity. Qed.

  Lemma total_app F G : total weight (F ++ G) = total weight F + total weight G.
  Proof.
    induction F as [|z F IH]; cbn [app]; rewrite ?total_cons; [unfold total; simpl; lra|].
    rewrite IH. lra.
  Qed.

  Lemma total_nonneg F : (forall z, In z F -> 0 <= weight z) -> 0 <= total weight F.
  Proof.
    induction F as [|z F IH]; intros H; [unfold total; simpl; lra|]. rewrite total_cons.
    pose proof (H z (or_introl eq_refl)). specialize (IH (fun y h => H y (or_intror h))). lra.
  Qed.

  Lemma total_permutation F G : Permutation F G -> total weight F = total weight G.
  Proof. induction 1; rewrite ?total_cons; lra. Qed.

  (* A larger set weighs no less. *)
  Lemma total_incl F : forall G, NoDup F -> incl F G -> (forall z, 0 <= weight z) ->
    total weight F <= total weight G.
  Proof.
    induction F as [|z F IH]; intros G ND HI H0.
    - now apply total_nonneg.
    - apply NoDup_cons_iff in ND as [Hz ND].
      destruct (in_split z G (HI z (or_introl eq_refl))) as [G1 [G2 ->]].
      rewrite (total_permutation (G1 ++ z :: G2) (z :: G1 ++ G2)) by
        (symmetry; apply Permutation_middle).
      rewrite !total_cons. apply Rplus_le_compat_l. apply IH; auto.
      intros y Hy. pose proof (HI y (or_intror Hy)) as Hin.
      apply in_app_iff in Hin as [Hin | [-> | Hin]].
      + apply in_app_iff. now left.
      + contradiction.
      + apply in_app_iff. now right.
  Qed.

  Lemma total_scaled c F : total (fun z => c * weight z) F = c * total weight F.
  Proof.
    unfold total. induction F as [|z F IH]; cbn [fold_right]; [lra|]. rewrite IH. lra.
  Qed.
End Totals.

Lemma total_le {A} (weight weight' : A -> R) F :
  (forall z, In z F -> weight z <= weight' z) -> total weight F <= total weight' F.
Proof.
  induction F as [|z F IH]; intros H; [apply Rle_refl|]. rewrite !total_cons.
  pose proof (H z (or_introl eq_refl)). specialize (IH (fun y h => H y (or_intror h))). lra.
Qed.

Lemma total_map {A B} (f : A -> B) weight F : total weight (map f F) = total (fun z => weight (f z)) F.
Proof. induction F as [|z F IH]; auto. cbn [map]. now rewrite !total_cons, IH. Qed.

Lemma total_product {A B} (f : A -> R) (g : B -> R) F G :
  total (fun p => f (fst p) * g (snd p)) (list_prod F G) = total f F * total g G.
Proof.
  induction F as [|a F IH]; [unfold total; simpl; lra|]. cbn [list_prod].
  rewrite total_app, IH, total_map, total_cons. cbn [fst snd].
  rewrite (total_scaled g (f a)). ring.
Qed.

Lemma map_NoDup {A B} (f : A -> B) F :
  NoDup F -> (forall x y, In x F -> In y F -> f x = f y -> x = y) -> NoDup (map f F).
Proof.
  induction F as [|a F IH]; intros ND H; simpl; constructor; apply NoDup_cons_iff in ND as [Ha ND].
  - intros Hin. apply in_map_iff in Hin as [y [E Hy]]. apply Ha.
    rewrite (H a y); simpl; auto.
  - apply IH; auto. intros. apply H; simpl; auto.
Qed.

Section Masses.
  Variable weight : list Z -> R.
  Hypothesis weight_positive : forall z, 0 < weight z.

  Lemma mass_nonneg S m : mass weight S m -> 0 <= m.
  Proof.
    intros [H _]. apply H. exists []. repeat split; [constructor | intros z []].
  Qed.

  Lemma mass_upper S m F : mass weight S m -> NoDup F -> (forall z, In z F -> S z) ->
    total weight F <= m.
  Proof. intros [H _] ND HS. apply H. now exists F. Qed.

  Lemma mass_least S m c : mass weight S m ->
    (forall F, NoDup F -> (forall z, In z F -> S z) -> total weight F <= c) -> m <= c.
  Proof. intros [_ H] Hc. apply H. intros s [F [ND [HS ->]]]. now apply Hc. Qed.

  Lemma mass_unique S m m' : mass weight S m -> mass weight S m' -> m = m'.
  Proof. intros H H'. apply (is_lub_u _ m m' H H'). Qed.

  Lemma mass_monotone (S S' : list Z -> Prop) m m' : mass weight S m -> mass weight S' m' ->
    (forall z, S z -> S' z) -> m <= m'.
  Proof.
    intros H H' HS. apply (mass_least S m); auto. intros F ND HF. apply (mass_upper S'); auto.
  Qed.

  Lemma mass_exists (S S' : list Z -> Prop) all : mass weight S' all -> (forall z, S z -> S' z) ->
    exists m, mass weight S m.
  Proof.
    intros H HS. destruct (completeness
      (fun s => exists F, NoDup F /\ (forall z, In z F -> S z) /\ s = total weight F)) as [m Hm].
    - exists all. intros s [F [ND [HF ->]]]. apply (mass_upper S'); auto.
    - exists 0, []. repeat split; [constructor | intros z []].
    - now exists m.
  Qed.

  Lemma mass_positive S m z : mass weight S m -> S z -> 0 < m.
  Proof.
    intros H Hz. apply Rlt_le_trans with (weight z); auto.
    replace (weight z) with (total weight [z]) by (unfold total; simpl; lra).
    apply (mass_upper S); auto.
    - constructor; [intros [] | constructor].
    - intros y [<- | []]; auto.
  Qed.


  (* One to one, and no weight falls by more than a factor. *)
  Lemma mass_moved (S S' : list Z -> Prop) (f : list Z -> list Z) c m m' :
    mass weight S m -> mass weight S' m' -> 0 <= c ->
    (forall z, S z -> S' (f z)) ->
    (forall y z, S y -> S z -> f y = f z -> y = z) ->
    (forall z, S z -> weight z <= c * weight (f z)) ->
    m <= c * m'.
  Proof.
    intros H H' Hc Hin Hinj Hw. apply (mass_least S m); auto. intros F ND HF.
    apply Rle_trans with (total (fun z => c * weight (f z)) F).
    - apply total_le. auto.
    - rewrite (total_scaled (fun z => weight (f z)) c). apply Rmult_le_compat_l; auto.
      rewrite <- (total_map f weight). apply (mass_upper S' m'); auto.
      + apply map_NoDup; auto.
      + intros y Hy. apply in_map_iff in Hy as [z [<- Hz]]. auto.
  Qed.

  (* Numbers that are no more than the masses of disjoint sets, told apart by a label, add up to no
     more than the mass of all. *)
  Lemma masses_of_labels {L : Type} (S : list Z -> Prop) (label : list Z -> L) (m : L -> R) all :
    mass weight S all ->
    (forall l x, (forall F, NoDup F -> (forall z, In z F -> S z /\ label z = l) ->
      total weight F <= x) -> m l <= x) ->
    forall labels, NoDup labels -> total m labels <= all.
  Proof.
    intros Hall Hm.
    assert (forall labels F, NoDup labels -> NoDup F -> (forall z, In z F -> S z) ->
      (forall z, In z F -> ~ In (label z) labels) -> total m labels + total weight F <= all) as Q.
    { induction labels as [|l labels IH]; intros F NL NF HS HL.
      - replace (total m []) with 0 by reflexivity. rewrite Rplus_0_l. apply (mass_upper S); auto.
      - apply NoDup_cons_iff in NL as [Hl NL].
        assert (m l <= all - total m labels - total weight F) as B.
        { apply Hm. intros G NG HG.
          enough (total m labels + total weight (G ++ F) <= all) as E by
            (rewrite total_app in E; lra).
          apply IH; auto.
          - clear IH Hm Hall. induction G as [|g G IHG]; simpl; auto.
            apply NoDup_cons_iff in NG as [Hg NG]. constructor.
            + intros Hin. apply in_app_iff in Hin as [Hin | Hin]; [contradiction|].
              apply (HL g Hin). left. symmetry. apply (HG g). now left.
            + apply IHG; auto. intros. apply HG. now right.
          - intros z Hz. apply in_app_iff in Hz as [Hz | Hz]; [apply (HG z Hz) | auto].
          - intros z Hz. apply in_app_iff in Hz as [Hz | Hz].
            + destruct (HG z Hz) as [_ ->]. auto.
            + intros Hin. apply (HL z Hz). now right. }
        rewrite total_cons. lra. }
    intros labels NL. specialize (Q labels [] NL (NoDup_nil _)).
    replace (total weight []) with 0 in Q by reflexivity. rewrite Rplus_0_r in Q.
    apply Q; intros z [].
  Qed.
End Masses.

(* Hoelder's inequality, as a line below a power: with t the sum of p over that of q, sums over both
   sides say that (sum p)^a (sum q)^(1-a) <= sum p^a q^(1-a), for the whole order a = n + 1. *)
Lemma power_above_line n : forall x t, 0 <= x -> 0 <= t ->
  INR (S n) * t ^ n * x - INR n * t ^ S n <= x ^ S n.
Proof.
  induction n as [|n IH]; intros x t Hx Ht.
  - simpl. lra.
  - specialize (IH x t Hx Ht).
    apply (Rmult_le_compat_l x) in IH; auto.
    assert (0 <= INR (S n) * t ^ n * (x - t) ^ 2) as Hsq.
    { apply Rmult_le_pos; [apply Rmult_le_pos; [apply pos_INR | now apply pow_le] | apply pow2_ge_0]. }
    change (x ^ S (S n)) with (x * x ^ S n).
    apply Rle_trans with (2 := IH).
    rewrite (S_INR (S n)), (S_INR n) in *. simpl pow in *. nra.
Qed.

Lemma quotient_above_line n p q t : 0 <= p -> 0 < q -> 0 <= t ->
  INR (S n) * t ^ n * p - INR n * t ^ S n * q <= p ^ S n / q ^ n.
Proof.
  intros Hp Hq Ht.
  assert (0 <= p / q) as Hx by (apply Rmult_le_pos; [auto | left; now apply Rinv_0_lt_compat]).
  pose proof (power_above_line n (p / q) t Hx Ht) as H.
  apply (Rmult_le_compat_r q) in H; [|lra].
  assert (q ^ n <> 0) as Hn by (apply pow_nonzero; lra).
  replace ((p / q) ^ S n * q) with (p ^ S n / q ^ n) in H.
  - replace ((INR (S n) * t ^ n * (p / q) - INR n * t ^ S n) * q) with
      (INR (S n) * t ^ n * p - INR n * t ^ S n * q) in H by (field; lra). exact H.
  - unfold Rdiv. rewrite Rpow_mult_distr, pow_inv. simpl. field. split; [exact Hn | lra].
Qed.
