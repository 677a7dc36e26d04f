(* B C = A for trees of every size, and how many nodes an item enters. *)
From Coq Require Import ZArith List Bool Lia FinFun.
From Counton Require Import Strategies.
Import ListNotations.
Open Scope Z_scope.

Section Products.
  Context {Node : Type}.
  Variable same : forall m n : Node, {m = n} + {m <> n}.
  Notation entry := (entry same).

  Lemma read_app r s (z : Node -> Z) : read (r ++ s) z = read r z + read s z.
  Proof. induction r as [|wn r IH]; simpl; auto. unfold read in *. simpl. rewrite IH. lia. Qed.

  Lemma entry_app c d n : entry (c ++ d) n = entry c n + entry d n.
  Proof. unfold Strategies.entry. rewrite count_occ_app. lia. Qed.

  Lemma read_plus r (y z : Node -> Z) : read r (fun n => y n + z n) = read r y + read r z.
  Proof. unfold read. induction r as [|wn r IH]; simpl; lia. Qed.

  Lemma read_times r k (z : Node -> Z) : read r (fun n => k * z n) = k * read r z.
  Proof. unfold read. induction r as [|wn r IH]; simpl; lia. Qed.

  Lemma read_ext r (y z : Node -> Z) : (forall w n, In (w, n) r -> y n = z n) -> read r y = read r z.
  Proof.
    unfold read. induction r as [|[w n] r IH]; simpl; intros H; auto.
    rewrite (H w n) by auto. rewrite IH; auto. intros. apply (H w0). auto.
  Qed.

  Lemma read_entry_app r c d : read r (entry (c ++ d)) = read r (entry c) + read r (entry d).
  Proof.
    rewrite <- read_plus. apply read_ext. intros. apply entry_app.
  Qed.

  Lemma entry_0 c n : ~ In n c -> entry c n = 0.
  Proof. intros H. unfold Strategies.entry. now rewrite (proj1 (count_occ_not_In same c n) H). Qed.

  Lemma read_0 r c : (forall w n, In (w, n) r -> ~ In n c) -> read r (entry c) = 0.
  Proof.
    intros H. rewrite (read_ext r (entry c) (fun _ => 0)).
    - unfold read. induction r as [|wn r IH]; simpl; auto. rewrite IH; [lia|].
      intros w n Hin. apply (H w n). now right.
    - intros w n Hin. apply entry_0. now apply (H w).
  Qed.
End Products.

Lemma between_In a b p : In p (between a b) <-> a < p <= b.
Proof.
  unfold between. rewrite in_map_iff. split.
  - intros [j [<- Hj]]. apply in_seq in Hj. lia.
  - intros H. exists (Z.to_nat (p - a)). split; [lia|]. apply in_seq. lia.
Qed.

Lemma between_NoDup a b : NoDup (between a b).
Proof.
  unfold between. apply Injective_map_NoDup; [intros i j H; lia | apply seq_NoDup].
Qed.

(* Nodes of one level between a and b, each read with weight w: w if the item's node is one. *)
Lemma read_level w level a b c :
  read (map (fun p => (w, (level, p))) (between a b)) (entry same_node [(level, c)]) =
  if (a <? c) && (c <=? b) then w else 0.
Proof.
  assert (forall ps, NoDup ps ->
    read (map (fun p => (w, (level, p))) ps) (entry same_node [(level, c)]) =
    if existsb (Z.eqb c) ps then w else 0) as H.
  { induction ps as [|p ps IH]; intros ND; [reflexivity|].
    apply NoDup_cons_iff in ND as [Hp ND]. specialize (IH ND).
    unfold read in *. cbn [map fold_right fst snd existsb]. rewrite IH.
    unfold entry. cbn [count_occ].
    destruct (same_node (level, c) (level, p)) as [E | E].
    - injection E as ->. rewrite Z.eqb_refl. cbn [orb].
      destruct (existsb (Z.eqb p) ps) eqn:X; [|lia].
      apply existsb_exists in X as [q [Hq Eq]]. apply Z.eqb_eq in Eq. now subst.
    - destruct (Z.eqb_spec c p) as [-> |]; [now contradiction E|]. cbn [orb]. lia. }
  rewrite H by apply between_NoDup.
  assert (existsb (Z.eqb c) (between a b) = (a <? c) && (c <=? b)) as ->; [|reflexivity].
  apply eq_true_iff_eq. rewrite existsb_exists, andb_true_iff, Z.ltb_lt, Z.leb_le. split.
  - intros [p [Hp E]]. apply Z.eqb_eq in E as <-. now apply between_In in Hp.
  - intros Hc. exists c. rewrite between_In, Z.eqb_refl. auto.
Qed.

Lemma same_level_only w level level' a b (c : list tree_node) :
  (forall n, In n c -> (level <= fst n)%nat) -> (level' < level)%nat ->
  read (map (fun p => (w, (level', p))) (between a b)) (entry same_node c) = 0.
Proof.
  intros H Hl. apply read_0. intros v n Hin Hn. apply in_map_iff in Hin as [p [E _]].
  injection E as _ <-. specialize (H _ Hn). simpl in H. lia.
Qed.

(* The node that holds an item: its parent's number is a quotient, rounded up. *)
Definition ceiling (a k : Z) : Z := - (- a / k).

Lemma ceiling_le a k b : 0 < k -> (ceiling a k <= b <-> a <= k * b).
Proof.
  intros Hk. unfold ceiling. split; intros H.
  - pose proof (Z.mul_div_le (- a) k Hk). nia.
  - assert (- b <= - a / k); [|lia]. apply Z.div_le_lower_bound; lia.
Qed.

Lemma ceiling_ceiling a k m : 0 < k -> 0 < m -> ceiling (ceiling a m) k = ceiling a (m * k).
Proof. intros Hk Hm. unfold ceiling. rewrite Z.opp_involutive, Z.div_div by lia. reflexivity. Qed.

Section KAry.
  Variables k below : Z.
  Hypothesis k_large : 2 <= k.
  Hypothesis digits : 0 <= below < k - 1.

  (* The column level by level, as the row is written. *)
  Fixpoint column_from (level height : nat) (c : Z) : list tree_node :=
    match height with
    | O => []
    | S height' =>
        (if negb ((c + below) mod k =? 0) then [(level, c)] else []) ++
        column_from (S level) height' (ceiling c k)
    end.

  Lemma column_from_is height : forall level item,
    filter (fun n => negb ((snd n + below) mod k =? 0))
      (map (fun l => (l, ceiling item (k ^ Z.of_nat l))) (seq level height)) =
    column_from level height (ceiling item (k ^ Z.of_nat level)).
  Proof.
    induction height as [|height IH]; intros level item; [reflexivity|].
    cbn [seq map filter column_from snd]. rewrite IH.
    assert (0 < k ^ Z.of_nat level) as Hp by (apply Z.pow_pos_nonneg; lia).
    rewrite ceiling_ceiling by lia.
    replace (k ^ Z.of_nat level * k) with (k ^ Z.of_nat (S level)).
    - destruct (negb _); reflexivity.
    - rewrite Nat2Z.inj_succ, Z.pow_succ_r by lia. ring.
  Qed.

  Lemma tree_column_is height item : tree_column k below height item = column_from 0 height item.
  Proof.
    unfold tree_column. change (fun level => (level, - (- item / k ^ Z.of_nat level))) with
      (fun level => (level, ceiling item (k ^ Z.of_nat level))).
    rewrite column_from_is. f_equal. simpl. unfold ceiling. rewrite Z.div_1_r. lia.
  Qed.

  Lemma column_levels height : forall level c n, In n (column_from level height c) -> (level <= fst n)%nat.
  Proof.
    induction height as [|height IH]; intros level c n H; [contradiction|].
    cbn [column_from] in H. apply in_app_iff in H as [H | H].
    - destruct (negb _); [|contradiction]. destruct H as [<- | []]. simpl. lia.
    - specialize (IH _ _ _ H). lia.
  Qed.

  Lemma row_levels height : forall level last w n, In (w, n) (tree_row k below level height last) ->
    (level <= fst n)%nat.
  Proof.
    induction height as [|height IH]; intros level last w n H; [contradiction|].
    cbn [tree_row] in H. cbv zeta in H.
    apply in_app_iff in H as [H | H]; [|apply in_app_iff in H as [H | H]].
    1, 2: apply in_map_iff in H as [p [E _]]; injection E as <- <-; simpl; lia.
    specialize (IH _ _ _ _ H). lia.
  Qed.

  Lemma mod_not_0 p m j : p = k * m + j -> 0 < j < k -> p mod k <> 0.
  Proof.
    intros -> H. replace (k * m + j) with (j + m * k) by ring. rewrite Z.mod_add by lia.
    rewrite Z.mod_small; lia.
  Qed.

  Lemma product height : forall level last c, 0 <= last <= tree_horizon k below height -> 1 <= c ->
    read (tree_row k below level height last) (entry same_node (column_from level height c)) =
    if c <=? last then 1 else 0.
  Proof.
    induction height as [|height IH]; intros level last c Ht Hc.
    - simpl in Ht. destruct (Z.leb_spec c last); [lia | reflexivity].
    - cbn [tree_row column_from]. cbv zeta. cbn [tree_horizon] in Ht.
      set (parent := (last + below) / k).
      assert (k * parent <= last + below < k * parent + k) as Hp.
      { unfold parent. pose proof (Z.mul_div_le (last + below) k ltac:(lia)).
        pose proof (Z.mul_succ_div_gt (last + below) k ltac:(lia)). lia. }
      assert (0 <= parent <= tree_horizon k below height) as Hq.
      { split; [apply Z.div_pos; lia|]. assert (parent < tree_horizon k below height + 1); [|lia].
        apply Z.div_lt_upper_bound; lia. }
      assert (1 <= ceiling c k) as Hcc.
      { destruct (Z.le_gt_cases 1 (ceiling c k)); auto.
        assert (ceiling c k <= 0) as H0 by lia. apply ceiling_le in H0; lia. }
      rewrite !read_app, !read_entry_app.
      assert (forall w a b, read (map (fun p => (w, (level, p))) (between a b))
        (entry same_node (column_from (S level) height (ceiling c k))) = 0) as L.
      { intros. apply (same_level_only _ (S level)); [apply column_levels | lia]. }
      rewrite !L. clear L.
      rewrite (IH (S level) parent (ceiling c k) Hq Hcc).
      assert (read (tree_row k below (S level) height parent) (entry same_node
        (if negb ((c + below) mod k =? 0) then [(level, c)] else [])) = 0) as ->.
      { apply read_0. intros w n Hin Hn. apply row_levels in Hin.
        destruct (negb _); [destruct Hn as [<- | []]; simpl in Hin; lia | contradiction]. }
      assert (forall w a b, (forall p, a < p <= b -> (p + below) mod k <> 0) ->
        read (map (fun p => (w, (level, p))) (between a b)) (entry same_node
          (if negb ((c + below) mod k =? 0) then [(level, c)] else [])) =
        if (a <? c) && (c <=? b) then w else 0) as R.
      { intros w a b Hab. destruct (Z.eqb_spec ((c + below) mod k) 0) as [E | E]; simpl negb; cbv iota.
        - rewrite read_0 by (intros ? ? _ []).
          destruct (Z.ltb_spec a c), (Z.leb_spec c b); simpl; auto.
          exfalso. apply (Hab c); auto.
        - apply read_level. }
      rewrite !R.
      + assert (ceiling c k <= parent <-> c <= k * parent) as HC by (apply ceiling_le; lia).
        destruct (Z.leb_spec (ceiling c k) parent), (Z.ltb_spec (k * parent) c), (Z.leb_spec c last),
          (Z.ltb_spec last c), (Z.leb_spec c (k * parent)); simpl; lia.
      + intros p Hb. apply (mod_not_0 _ parent (p + below - k * parent)); lia.
      + intros p Hb. apply (mod_not_0 _ parent (p + below - k * parent)); lia.
  Qed.

  Lemma kary_product height item step : 1 <= item -> 0 <= step <= tree_horizon k below height ->
    read (tree_row k below 0 height step) (entry same_node (tree_column k below height item)) =
    if item <=? step then 1 else 0.
  Proof. intros. rewrite tree_column_is. now apply product. Qed.

  Lemma column_length height : forall level c, (length (column_from level height c) <= height)%nat.
  Proof.
    induction height as [|height IH]; intros level c; [simpl; lia|]. cbn [column_from].
    rewrite app_length. specialize (IH (S level) (ceiling c k)). destruct (negb _); simpl; lia.
  Qed.

  Lemma first_column height : forall level, length (column_from level height 1) = height.
  Proof.
    induction height as [|height IH]; intros level; [reflexivity|]. cbn [column_from].
    rewrite app_length.
    assert (ceiling 1 k = 1) as ->.
    { pose proof (ceiling_le 1 k 1 ltac:(lia)). pose proof (ceiling_le 1 k 0 ltac:(lia)). lia. }
    rewrite IH. destruct (Z.eqb_spec ((1 + below) mod k) 0) as [E | E]; [|reflexivity].
    rewrite Z.mod_small in E; lia.
  Qed.

  Lemma kary_largest height :
    (forall item, length (tree_column k below height item) <= height)%nat /\
    length (tree_column k below height 1) = height.
  Proof.
    split; intros; rewrite tree_column_is; [apply column_length | apply first_column].
  Qed.
End KAry.

Lemma tree_column_NoDup k below height item : NoDup (tree_column k below height item).
Proof.
  unfold tree_column. apply NoDup_filter. apply Injective_map_NoDup; [|apply seq_NoDup].
  intros i j E. now injection E.
Qed.

(* The binary mechanism renames odd nodes. *)
Lemma read_renamed {Node : Type} (same : forall m n : Node, {m = n} + {m <> n}) f r c :
  (forall w m n, In (w, m) r -> In n c -> f m = f n -> m = n) ->
  read (map (fun wn => (fst wn, f (snd wn))) r) (entry same (map f c)) = read r (entry same c).
Proof.
  intros H. unfold read. induction r as [|[w m] r IH]; simpl; auto.
  rewrite IH by (intros v a b Ha; apply (H v a b); now right). do 2 f_equal.
  unfold entry. f_equal.
  assert (forall n, In n c -> f m = f n -> m = n) as Hm by (intros n; apply (H w m n); now left).
  clear IH H. induction c as [|n c IH]; simpl; auto.
  rewrite IH by (intros a Ha; apply Hm; now right).
  destruct (same (f n) (f m)) as [E | E], (same n m) as [E' | E']; auto.
  - exfalso. apply E'. symmetry. apply Hm; [now left | auto].
  - exfalso. apply E. now rewrite E'.
Qed.

Lemma column_odd height : forall level c n, In n (column_from 2 0 level height c) -> snd n mod 2 = 1.
Proof.
  induction height as [|height IH]; intros level c n H; [contradiction|].
  cbn [column_from] in H. apply in_app_iff in H as [H | H]; [|now apply IH in H].
  destruct (Z.eqb_spec ((c + 0) mod 2) 0) as [E | E]; [contradiction|].
  destruct H as [<- | []]. simpl snd. rewrite Z.add_0_r in E.
  pose proof (Z.mod_pos_bound c 2 ltac:(lia)). lia.
Qed.

Lemma row_odd height : forall level last w n, In (w, n) (tree_row 2 0 level height last) -> snd n mod 2 = 1.
Proof.
  induction height as [|height IH]; intros level last w n H; [contradiction|].
  cbn [tree_row] in H. cbv zeta in H. rewrite Z.add_0_r in H.
  pose proof (Z.div_mod last 2 ltac:(lia)) as D. pose proof (Z.mod_pos_bound last 2 ltac:(lia)) as M.
  apply in_app_iff in H as [H | H]; [|apply in_app_iff in H as [H | H]].
  - apply in_map_iff in H as [p [E Hp]]. injection E as <- <-. apply between_In in Hp. simpl snd.
    assert (p = 1 + last / 2 * 2) as -> by lia. rewrite Z.mod_add by lia. reflexivity.
  - apply in_map_iff in H as [p [E Hp]]. apply between_In in Hp. lia.
  - now apply IH in H.
Qed.

Lemma left_child_injective m n : snd m mod 2 = 1 -> snd n mod 2 = 1 ->
  left_child m = left_child n -> m = n.
Proof.
  destruct m as [l p], n as [l' p']. unfold left_child. simpl. intros Hm Hn E. injection E as -> E.
  f_equal. pose proof (Z.div_mod p 2 ltac:(lia)). pose proof (Z.div_mod p' 2 ltac:(lia)). lia.
Qed.

Lemma binary_product height item step : 1 <= item -> 0 <= step <= tree_horizon 2 0 height ->
  read (binary_row height step) (entry same_node (binary_column height item)) =
  if item <=? step then 1 else 0.
Proof.
  intros Hi Hs. unfold binary_row, binary_column. rewrite read_renamed.
  - apply kary_product; lia.
  - intros w m n Hm Hn. rewrite tree_column_is in Hn by lia.
    apply left_child_injective; [now apply row_odd in Hm | now apply column_odd in Hn].
Qed.

Lemma binary_largest height :
  (forall item, length (binary_column height item) <= height)%nat /\
  length (binary_column height 1) = height.
Proof.
  unfold binary_column. split; intros; rewrite map_length; apply kary_largest; lia.
Qed.

Lemma binary_horizon height : tree_horizon 2 0 height = 2 ^ Z.of_nat height - 1.
Proof.
  induction height as [|height IH]; [reflexivity|].
  cbn [tree_horizon]. rewrite IH, Nat2Z.inj_succ, Z.pow_succ_r by lia. lia.
Qed.
